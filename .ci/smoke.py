"""Use an installed wheel that has nothing but its dependencies beside it."""

import pickle

from skbnp import HDP
from skbnp.datasets import make_bars

bars = make_bars(400, random_state=0)
hdp = HDP(n_components=40, random_state=0, n_jobs=2).fit(bars.data[:300])
score = hdp.score(bars.data[300:])
assert score > -4.0, score  # a uniform prediction scores -log(100) = -4.6
topics = pickle.loads(pickle.dumps(hdp)).transform(bars.data[300:])
assert topics.shape == (100, hdp.n_components_), topics.shape
print(f"smoke test: {hdp.n_active_components_} topics, {score:.3f} nats per token")
