"""Use an installed wheel that has nothing but its dependencies beside it."""

import os
import pickle
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

began = time.perf_counter()

from skbnp import HDP, GibbsHDP, load, save  # noqa: E402
from skbnp.datasets import make_bars  # noqa: E402

bars = make_bars(300, side=5, random_state=0)
seen, unseen = bars.data[:200], bars.data[200:]


def fit(n_jobs):
    """Fit by so many threads."""
    hdp = HDP(30, max_iter=10, split_merge=False, random_state=0, n_jobs=n_jobs)
    return hdp.fit(seen)


with ThreadPoolExecutor(2) as pool:  # side by side: the same bits
    one, two = pool.map(fit, (1, 2))
assert (one.components_ == two.components_).all()
score = one.score(unseen)
assert score > -2.6, score  # a uniform prediction scores -log(25) = -3.2
expected = one.transform(unseen)
assert expected.shape == (100, one.n_components_), expected.shape
stream = HDP(random_state=0)
for chunk in (seen[:150], seen[150:]):
    stream.partial_fit(chunk)
assert stream.n_iter_ == 2
assert abs(stream.transform(unseen).sum(axis=1) - 1.0).max() < 1e-9

try:
    import skops.io
except ImportError:
    skops = None
chain = GibbsHDP(4, max_iter=5, random_state=0).fit(seen)
for model in (one, chain):  # what is read from files, by all its types
    expected, copies = model.transform(unseen), [pickle.loads(pickle.dumps(model))]
    with tempfile.TemporaryDirectory() as folder:
        save(model, os.path.join(folder, "model.skbnp"))
        copies.append(load(os.path.join(folder, "model.skbnp")))
    if skops:
        name = f"{type(model).__module__}.{type(model).__name__}"
        copies.append(skops.io.loads(skops.io.dumps(model), trusted=[name]))
    for copy in copies:
        assert (copy.transform(unseen) == expected).all()
if hasattr(sys, "_is_gil_enabled") and "free-threading" in sys.version:
    assert not sys._is_gil_enabled()
print(
    f"smoke test: Python {sys.version.split()[0]}, {one.n_active_components_} topics, "
    f"{score:.3f} nats per token, skops {'not ' * (skops is None)}tried, "
    f"{time.perf_counter() - began:.1f} s, processors {time.process_time():.1f} s"
)
