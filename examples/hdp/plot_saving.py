"""
Save a model and go on with it
==============================

A fitted model can be written to a file, read by another process, and learn more there.
With skops the file is read without running code from it: the loader makes only the
types that it is told to trust.
"""

# %%
# Save and load
# -------------
# A sampler is saved after 150 sweeps. A file names the types that it asks for; those of
# a fitted sampler are two. What is loaded predicts the same, to the last bit.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import skops.io

from skbnp import HDP, GibbsHDP
from skbnp.datasets import make_bars

X = make_bars(600, n_words=50, random_state=0).data
train, more, test = X[:300], X[300:500], X[500:]

settings = {"n_components": 50, "burn_in": 100, "random_state": 0}
saved = GibbsHDP(max_iter=150, **settings).fit(train)

file = Path(tempfile.mkdtemp()) / "gibbs.skops"
skops.io.dump(saved, file)
print(skops.io.get_untrusted_types(file=file))

trusted = ["skbnp.estimators._gibbs_hdp.GibbsHDP", "scipy.sparse._csr.csr_array"]
loaded = skops.io.load(file, trusted=trusted)
print(np.array_equal(loaded.transform(test), saved.transform(test)))

# %%
# Go on
# -----
# With `warm_start` the next call of ``fit`` on the same documents continues the chain:
# 250 more sweeps. They are those that one fit of 400 sweeps would have made.
loaded.set_params(warm_start=True, max_iter=250).fit(train)
whole = GibbsHDP(max_iter=400, **settings).fit(train)
print(np.array_equal(loaded.transform(test), whole.transform(test)))

figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
steps, joints = loaded.history_["step"], loaded.history_["log_joint"]
ax.plot(
    whole.history_["step"],
    whole.history_["log_joint"],
    color="0.75",
    lw=6,
    label="one fit",
)
n = len(saved.history_["step"])
ax.plot(steps[:n], joints[:n], label="before it was saved")
ax.plot(steps[n:], joints[n:], label="after it was loaded")
shown = len(joints) // 20  # the start is far below
ax.set(xlabel="sweep", ylabel="log joint (nats per token)", xlim=(shown, None))
ax.set(ylim=(min(joints[shown:]) - 0.02, max(joints) + 0.02))
ax.legend(loc="lower right")
plt.show()

# %%
# Learn from new documents
# ------------------------
# A variational model goes on with documents that have come since by ``partial_fit``.
hdp = HDP(random_state=0).fit(train)
skops.io.dump(hdp, file)
hdp = skops.io.load(file, trusted=["skbnp.estimators._hdp.HDP"])
before = hdp.score(test)
hdp.partial_fit(more)
print(f"{before:.3f} nats per token, with the new documents {hdp.score(test):.3f}")
