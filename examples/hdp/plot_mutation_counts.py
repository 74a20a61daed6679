"""
Counts that are no text: mutations of tumours
=============================================

Any matrix of counts has topics. Genomes of tumours carry mutations of 96 types: six
substitutions of a base, each between 16 pairs of neighbours. Every process that damages
DNA makes its own mixture of types, its signature, and a tumour adds up those that it
was exposed to. A tumour is a document, a mutation a word, and a signature a topic.
"""

# %%
# Tumours with known signatures
# -----------------------------
# Real signatures are not needed to see how it works. Six are made up here, each strong
# in one or two substitutions and uneven over neighbours; 200 tumours of two types have
# some of them, and between 200 and 5,000 mutations each. Type B has more of the first.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skbnp import HDP
from skbnp.inspection import TopicSharesDisplay, match_components, topic_shares

SUBSTITUTIONS = ["C>A", "C>G", "C>T", "T>A", "T>C", "T>G"]
rng = np.random.default_rng(0)
strength = np.array(
    [
        [0.90, 0.02, 0.02, 0.02, 0.02, 0.02],
        [0.02, 0.90, 0.02, 0.02, 0.02, 0.02],
        [0.01, 0.01, 0.95, 0.01, 0.01, 0.01],
        [0.02, 0.02, 0.48, 0.02, 0.44, 0.02],
        [0.02, 0.02, 0.02, 0.90, 0.02, 0.02],
        [0.15, 0.15, 0.20, 0.15, 0.20, 0.15],
    ]
)
signatures = np.hstack(
    [rng.dirichlet(np.full(16, 0.5), 6) * s[:, None] for s in strength.T]
)
exposures = rng.dirichlet(np.full(6, 0.3), 200)
tumour_type = np.repeat(["type A", "type B"], 100)
exposures[100:] = 0.7 * exposures[100:] + 0.3 * np.eye(6)[0]
n_mutations = np.exp(rng.uniform(np.log(200), np.log(5000), 200)).astype(int)
counts = [
    rng.multinomial(n, exposure @ signatures)
    for n, exposure in zip(n_mutations, exposures, strict=True)
]
bases = [(before, after) for before in "ACGT" for after in "ACGT"]
kinds = [
    f"{before}[{change}]{after}" for change in SUBSTITUTIONS for before, after in bases
]
X = pd.DataFrame(counts, columns=kinds)

# %%
# Signatures found
# ----------------
# The number of signatures is found, not given: samples that are held out judge it by
# how well they are predicted. With 96 types and hundreds of mutations the mean-field
# family with a large topic prior is quick, and divides few signatures in two.
hdp = HDP(
    30,
    variational_family="mean_field",
    learning_method="memoized",
    topic_word_prior=0.5,
    random_state=0,
).fit(X)
result = hdp.topic_word_distr_
print(f"{hdp.n_components_} signatures")

# %%
# Below each true signature (filled) stands the one found that is most like it (line),
# with the cosine of the two, as the field compares signatures.
unit = result / np.linalg.norm(result, axis=1, keepdims=True)
true_unit = signatures / np.linalg.norm(signatures, axis=1, keepdims=True)
cosine = true_unit @ unit.T
best = cosine.argmax(axis=1)

figure, axes = plt.subplots(6, 1, figsize=(9, 9), layout="constrained", sharex=True)
for number, ax in enumerate(axes):
    for block, substitution in enumerate(SUBSTITUTIONS):
        types = np.arange(16 * block, 16 * (block + 1))
        ax.bar(
            types, signatures[number, types], width=0.8, color=f"C{block}", alpha=0.6
        )
        if number == 0:
            ax.text(
                16 * block + 7.5,
                1.05,
                substitution,
                ha="center",
                color=f"C{block}",
                transform=ax.get_xaxis_transform(),
            )
    ax.step(np.arange(96), result[best[number]], where="mid", color="black", lw=0.8)
    name = hdp.get_feature_names_out()[best[number]]
    ax.set_title(
        f"{name}, cosine {cosine[number, best[number]]:.3f}", loc="right", y=0.7, size=9
    )
    ax.set(xlim=(-1, 96), ylim=(0, None), ylabel="share")
axes[-1].set(xlabel="type of mutation, 16 pairs of neighbours for each substitution")
plt.show()

# %%
# Which are known?
# ----------------
# A catalogue, such as that of COSMIC, is a table with a column for each signature; here
# it has four of the six, two that never come alone, and twenty others.
# :func:`skbnp.inspection.match_components` lists what matches by cosine, what two
# signatures of the catalogue explain together, and what is new. "low" and "recurrence"
# are of bootstrap samples of the tumours.
others = rng.dirichlet(np.full(96, 0.3), 20)
halves = np.where(np.arange(96) < 48, 1.95, 0.05) * signatures[5]
known = np.vstack([signatures[:4], halves, 2.0 * signatures[5] - halves, others])
names = [f"S{number}" for number in range(1, len(known) + 1)]
catalogue = pd.DataFrame(known.T, index=kinds, columns=names)
print(match_components(hdp, catalogue, X).to_frame().round(3).to_string())

# %%
# Exposures of tumours
# --------------------
# ``transform`` gives the share of each signature in a tumour. Each dot is a tumour, on
# the line if its share is found exactly.
shares = hdp.transform(X)
figure, axes = plt.subplots(
    2, 3, figsize=(8, 5.5), layout="constrained", sharex=True, sharey=True
)
for number, ax in enumerate(axes.flat):
    ax.plot([0, 1], [0, 1], color="0.8", zorder=0)
    ax.scatter(exposures[:, number], shares[:, best[number]], s=8)
    ax.set(title=f"hdp{hdp.component_ids_[best[number]]}", aspect="equal")
figure.supxlabel("true share of the tumour's mutations")
figure.supylabel("share found")
plt.show()

# %%
# Do types differ?
# ----------------
# Mean exposures of the two types, with intervals, and their difference as a table.
by_type = topic_shares(hdp, X, tumour_type)
TopicSharesDisplay(shares=by_type).plot(kind="forest")
plt.show()
print(by_type.differences())
