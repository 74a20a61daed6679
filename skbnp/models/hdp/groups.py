"""Groups of documents with topic weights of their own: a third level of the HDP.

Symbols: corpus weights beta (K represented topics and, as last entry, all others
together); factors f = 1..F, such as journal and year, of groups g; N_jk expected tokens
(or tables of words) of topic k in document j. A document of groups g_1(j), .., g_F(j)
has proportions

    pi_j ~ DP(a_0, b_j),    b_j = w_0 beta + sum_f w_f beta_(f, g_f(j)),
    beta_fg ~ DP(a_f, beta),

and where a label is missing, beta in the place of beta_fg. With F = 1 and w_0 = 0 this
is the three-level HDP of section 6 of [1]. Topics, N and beta are those of a fit, and
stay. Expected tables, given a base mass x and counts n, are those of [2],

    t(x, n) = P x [psi(x + n / P) - psi(x)],    P = 1 - exp(-n).

Tables of a document go to its groups and to the corpus by their shares in the base, and
those of a group are counts of the corpus-level restaurant:

    M_jk = t(a_0 b_jk, N_jk),    M_fgk = sum_(j in g) M_jk w_f beta_fgk / b_jk,
    beta_fgk = (a_f beta_k + M_fgk) / (a_f + M_fg),    T_fgk = t(a_f beta_k, M_fgk),
    a_f = (1 + T_f) / (1 + sum_g [psi(a_f + M_fg) - psi(a_f)]),
    w_f = (1 + M_f) / (F + 1 + M),
    a_0 = (1 + M) / (1 + sum_j [psi(a_0 + N_j) - psi(a_0)]),

a fixed point that is iterated. The document concentration for prediction is that of
documents without groups times a_0 / alpha, with alpha what the last line has for b_j =
beta. Where a label is missing in prediction, that of the group

    q_g ~ n_g exp sum_k M_jk ln b_gk

is sum_g q_g beta_g; n_g are documents of the group, b_g is the base of the document in
it, N is inferred without groups by two iterations, and M are its tables under the base
N_jk / N_j. (A lower bound of the probability of N given g, but for constants: its
logarithm is convex in ln b, and M is the derivative at the document's own shares.)

References
----------
.. [1] Teh, Jordan, Beal and Blei, "Hierarchical Dirichlet Processes", JASA 2006.
.. [2] Sato, Kurihara and Nakagawa, "Practical Collapsed Variational Bayes Inference for
   Hierarchical Dirichlet Process", KDD 2012.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.special import psi

from skbnp.distributions import expected_tables
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Posterior
from skbnp.inference.protocols import Corpus, LocalStop
from skbnp.models.hdp.burstiness import ERRORS, LEAST_GAIN
from skbnp.models.hdp.fold_in import Choice, Documents, fold_in_posterior
from skbnp.models.hdp.held_out import N_FOLDS, SHARE, Gain, HeldOut, n_held_out
from skbnp.models.hdp.local import TOL
from skbnp.utils.arrays import csr, deal_tokens, rows_of
from skbnp.utils.labels import MISSING, NEW, Factors, Label
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import MOST_IDS, Amount, Mass, Positive, Sized
from skbnp.utils.typing import Array, Ints

T = TypeVar("T")

#: Rounds of the fixed point, and where concentrations of groups begin.
N_ROUNDS, START = 30, 5.0
#: The topics by which a missing label is inferred come of two iterations: with more of
#: them under the corpus's weights topics that a group has are lost.
ROUGH, NO_MORE = Choice(2, 2.0), LocalStop(0, TOL)
#: Turns of latent kinds, at most, and the share of documents that ends them.
N_TURNS, MOVED = 8, 0.01
#: Which sums of those that have judged are of squares.
IS_SQUARE = np.array([False, False, True, True, False, True])
#: Expected tables below are none.
LEAST_TABLES = 1e-300


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of one or more factors: tables of topics, concentrations, held-out gains.

    Groups of all factors are numbered on. Columns of tables are topics by their ids,
    as of the last call that learned.
    """

    names: tuple[str, ...]  # of the factors
    labels: tuple[tuple[Label, ...], ...]  # of the groups of each factor
    ids: Annotated[Ints, Sized("n_topics", most=MOST_IDS)]
    tables: Annotated[sp.csr_array, Sized("n_groups", "n_topics", least=0)]  # M_fgk
    n_docs: Annotated[Array, Sized("n_groups", least=0)]
    n_learned: Mass  # documents, with or without labels
    concentrations: Annotated[Array, Sized("n_factors", least=1e-300)]  # a_f
    amounts: Annotated[Array, Sized("n_parts", least=0)]  # M_0, M_1, .., M_F
    slope: Amount  # sum_j psi(a_0 + N_j) - psi(a_0)
    doc_concentration: Positive  # a_0
    #: The same three of documents that all have the base beta: M, slope and alpha.
    flat: Annotated[Array, Sized(3, least=0)]
    #: Sums over documents that have judged, with n tokens and a gain of g nats in log
    #: probability: 1, g, g^2, g n, n, n^2.
    judged: Annotated[Array, Sized(6)]
    are_latent: bool = False  # kinds of documents, which have no labels

    def __post_init__(self) -> None:
        n_factors, n_groups = len(self.concentrations), len(self.n_docs)
        sizes = len(self.names), len(self.labels), len(self.amounts) - 1
        if {*sizes} != {n_factors} or n_groups != sum(map(len, self.labels)):
            raise ValueError("names, labels and groups disagree")
        if self.tables.shape != (n_groups, len(self.ids)):
            raise ValueError("tables, groups and ids disagree")

    @classmethod
    def empty(cls, names: tuple[str, ...], posterior: Posterior) -> "Groups":
        """Return factors without groups, for the topics of a posterior."""
        n_factors, alpha = len(names), posterior.state.doc_concentration
        return cls(
            names=names,
            labels=((),) * n_factors,
            ids=posterior.ids.copy(),
            tables=sp.csr_array((0, len(posterior.ids))),
            n_docs=np.zeros(0),
            n_learned=0.0,
            concentrations=np.full(n_factors, START),
            amounts=np.zeros(n_factors + 1),
            slope=0.0,
            doc_concentration=alpha,
            flat=np.array([0.0, 0.0, alpha]),
            judged=np.zeros(6),
        )

    @property
    def limits(self) -> Ints:
        """Number of the first group of each factor, and of all groups, (F + 1,)."""
        return np.cumsum([0, *map(len, self.labels)])

    @property
    def factors(self) -> Ints:
        """Factor of each group, (n_groups,)."""
        return np.repeat(np.arange(len(self.names)), list(map(len, self.labels)))

    @property
    def shares(self) -> Array:
        """w_0, .., w_F: shares of corpus and factors in the base of a document."""
        amounts = 1.0 + self.amounts
        return amounts / amounts.sum()

    @property
    def gain(self) -> Gain:
        """Held-out gain over corpus weights, nats per token, and its error."""
        n_docs, gains, squares, products, n_tokens, of_lengths = self.judged.tolist()
        if n_docs < 2.0:
            return Gain(0.0, np.inf)
        mean = gains / n_tokens
        spread = max(squares - 2.0 * mean * products + mean**2 * of_lengths, 0.0)
        error = np.sqrt(spread * n_docs / (n_docs - 1.0)) / n_tokens
        return Gain(mean, float(error))

    @property
    def are_kept(self) -> bool:
        """Whether groups predict clearly better than the corpus."""
        gain = self.gain
        has_several = len(self.n_docs) > len(self.names)
        return has_several and gain.mean > max(ERRORS * gain.error, LEAST_GAIN)

    @property
    def ratio(self) -> float:
        """Concentration of documents with groups over that of others, a_0 / alpha."""
        return self.doc_concentration / float(self.flat[2])

    def by_factor(self, values: Sequence[T]) -> T | dict[str, T]:
        """Return the value of the only factor, or those of several by name."""
        return (
            dict(zip(self.names, values, strict=True)) if len(values) > 1 else values[0]
        )

    def weights(self, corpus: Array) -> Array:
        """beta_fg given corpus weights (K + 1,), (n_groups, K + 1)."""
        a = self.concentrations[self.factors][:, None]
        result = a * corpus
        result[:, :-1] += self.tables.toarray()
        return result / result.sum(axis=1, keepdims=True)

    def following(self, posterior: Posterior) -> "Groups":
        """Return the groups with tables of the present topics, in their order.

        Those of a topic that has been merged go to the topic that lives on.
        """
        if np.array_equal(self.ids, posterior.ids):
            return self
        heirs = {int(name): int(name) for name in self.ids}
        for entry in posterior.lineage:
            if entry.kind == "merge":
                for name, heir in heirs.items():
                    heirs[name] = entry.children[0] if heir in entry.parents else heir
        columns = posterior.columns
        to = np.array([columns.get(heir, -1) for heir in heirs.values()], dtype=np.intp)
        return self.placed(to, posterior.ids)

    def placed(self, columns: Ints, ids: Ints) -> "Groups":
        """Return the groups with tables in other columns, -1 for none, of topics."""
        kept = np.flatnonzero(columns >= 0)
        shape = len(columns), len(ids)
        ones = np.ones(len(kept))
        moves = sp.csr_array((ones, (kept, columns[kept])), shape=shape)
        tables = sp.csr_array(self.tables @ moves)
        tables.sort_indices()
        return replace(self, ids=ids.copy(), tables=tables)

    def plus(self, other: "Groups") -> "Groups":
        """Return the groups of both, with sums over the documents of both.

        Topics and names of factors are the same. Concentrations of groups are geometric
        means, by documents.
        """
        column = [other.names.index(name) for name in self.names]
        given = tuple(other.labels[f] for f in column)
        whole = self.extended(Factors(self.names, True, given, np.zeros((0, 0), int)))
        own = zip(whole.limits, given, whole.labels, strict=False)
        to = [first + labels.index(one) for first, of, labels in own for one in of]
        of_other = other.limits
        at = [np.arange(of_other[f], of_other[f + 1]) for f in column]
        rows = np.concatenate([np.zeros(0, np.intp), *at]).astype(np.intp)
        shape = len(whole.n_docs), len(other.n_docs)
        moves = sp.csr_array((np.ones(len(rows)), (to, rows)), shape=shape)
        amounts = self.amounts + other.amounts[np.append(0, 1 + np.array(column))]
        slope, (tables, growth, _) = self.slope + other.slope, self.flat + other.flat
        n_learned = self.n_learned + other.n_learned
        logs = np.log([self.concentrations, other.concentrations[column]])
        shares = np.array([self.n_learned, other.n_learned]) / max(n_learned, 1e-300)
        return replace(
            whole,
            tables=sp.csr_array(whole.tables + moves @ other.tables),
            n_docs=whole.n_docs + moves @ other.n_docs,
            n_learned=n_learned,
            concentrations=np.exp(shares @ logs),
            amounts=amounts,
            slope=slope,
            doc_concentration=float((1.0 + amounts.sum()) / (1.0 + slope)),
            flat=np.array([tables, growth, (1.0 + tables) / (1.0 + growth)]),
            judged=self.judged + other.judged,
        )

    def extended(self, factors: Factors) -> "Groups":
        """Return the groups and those of new labels, in order of labels."""
        labels, order, added = list[tuple[Label, ...]](), list[Ints](), 0
        old = self.limits
        for f, column in enumerate(factors.columns_of(self.names)):
            known, present = set(self.labels[f]), factors.labels[column]
            new = tuple(label for label in present if label not in known)
            labels.append(self.labels[f] + new)
            own = np.arange(old[f], old[f + 1])
            order += [own, len(self.n_docs) + added + np.arange(len(new))]
            added += len(new)
        at = np.concatenate([np.zeros(0, np.intp), *order])
        none = sp.csr_array((added, self.tables.shape[1]))
        tables = sp.csr_array(sp.vstack([self.tables, none], format="csr")[at])
        n_docs = np.append(self.n_docs, np.zeros(added))[at]
        return replace(self, labels=tuple(labels), tables=tables, n_docs=n_docs)

    def codes(self, factors: Factors | None, n_docs: int) -> Ints:
        """Return the number of the group of each document in each factor, (n_docs, F).

        Or that the label is missing or new.
        """
        if factors is None:
            return np.full((n_docs, len(self.names)), MISSING)
        codes = factors.codes_in(self.names, self.labels)
        return np.where(codes >= 0, codes + self.limits[:-1], codes)

    def learn(
        self, doc_topic: sp.csr_array, codes: Ints, corpus: Array, decay: float = 1.0
    ) -> "Groups":
        """Learn from expected counts N of further documents, (n_docs, K).

        `corpus` are the corpus weights, (K + 1,). Of D documents so far, S of them new,
        these have the weight (S / D)^decay: with 1, all have the same.
        """
        used = doc_topic.data > 0.0
        n_docs, n_topics = doc_topic.shape
        doc, counts = rows_of(doc_topic.indptr)[used], doc_topic.data[used]
        topic = doc_topic.indices[used].astype(np.intp)
        lengths = np.bincount(doc, counts, n_docs)
        # Tables are those of pairs of a group and a topic that occur.
        group = codes.T[:, doc]
        known = group >= 0
        total = self.n_learned + n_docs
        share = _share(self.n_learned, n_docs, decay)
        kept = (1.0 - share) * total / max(self.n_learned, 1.0)
        gained = share * total / max(n_docs, 1)
        old = rows_of(self.tables.indptr) * n_topics + self.tables.indices
        pairs = np.concatenate([old, (group * n_topics + topic)[known]])
        pairs, places = np.unique(pairs.astype(np.intp), return_inverse=True)
        group_of, topic_of = np.divmod(pairs, n_topics)
        factor_of, n_factors = self.factors, len(self.names)
        before = np.bincount(places[: len(old)], self.tables.data, len(pairs))
        before = kept * before
        at, amounts_before = places[len(old) :], kept * self.amounts
        slope_before, flat_before = kept * self.slope, kept * self.flat
        base, base_of = corpus[topic], corpus[topic_of]
        tables, a, shares = before, self.concentrations, self.shares
        a_0, alpha = self.doc_concentration, self.flat[2]
        for _ in range(N_ROUNDS):
            a_of = a[factor_of]
            of_group = np.bincount(group_of, tables, len(factor_of))
            own = a_of[group_of] * base_of + tables
            own /= (a_of + of_group)[group_of]
            parts = np.tile(base, (n_factors + 1, 1))
            parts[1:][known] = own[at]
            parts *= shares[:, None]
            mixed = parts.sum(axis=0)
            parts *= expected_tables(a_0 * mixed, counts) / mixed
            tables = gained * np.bincount(at, parts[1:][known], len(pairs)) + before
            amounts = amounts_before + gained * parts.sum(axis=1)
            shares = replace(self, amounts=amounts).shares
            growth = (psi(a_0 + lengths) - psi(a_0)).sum()
            slope = slope_before + gained * growth
            a_0 = (1.0 + amounts.sum()) / (1.0 + slope)
            flat = expected_tables(alpha * base, counts).sum()
            growth = (psi(alpha + lengths) - psi(alpha)).sum()
            flat = flat_before[0] + gained * flat
            growth = flat_before[1] + gained * growth
            alpha = (1.0 + flat) / (1.0 + growth)
            of_group = np.bincount(group_of, tables, len(factor_of))
            dishes = np.bincount(
                factor_of[group_of],
                expected_tables(
                    a_of[group_of] * base_of, np.maximum(tables, LEAST_TABLES)
                ),
                n_factors,
            )
            rise = np.bincount(factor_of, psi(a_of + of_group) - psi(a_of), n_factors)
            a = (1.0 + dishes) / (1.0 + rise)
        ends = np.cumsum(np.bincount(group_of, minlength=len(factor_of)))
        shape = len(factor_of), n_topics
        sizes = np.bincount(codes[codes >= 0], minlength=len(factor_of))
        return replace(
            self,
            tables=csr(tables, topic_of, np.append(0, ends), shape),
            n_docs=self.n_docs + sizes,
            n_learned=float(total),
            concentrations=a,
            amounts=amounts,
            slope=float(slope),
            doc_concentration=float(a_0),
            flat=np.array([flat, growth, alpha]),
        )

    def priors(
        self, corpus: Array, alpha: float, codes: Ints, doc_topic: sp.csr_array
    ) -> Array:
        """Dirichlet parameters of documents in prediction, (n_docs, K + 1).

        `corpus` are the corpus weights, (K + 1,), `alpha` is the concentration of
        documents without groups, and `doc_topic` are their expected counts N, which are
        read where labels are missing.
        """
        weights, shares, limits = self.weights(corpus), self.shares[1:], self.limits
        at = np.zeros(len(codes), dtype=np.intp)
        for column in codes.T:  # of few documents much quicker than rows at once
            both = at * (len(self.n_docs) - NEW) + column
            first, at = np.unique(both, return_index=True, return_inverse=True)[1:]
        combinations = codes[first]
        known = shares * (combinations != NEW)
        concentration = alpha * self.ratio ** (known.sum(axis=1) / shares.sum())
        # Exactly beta where all labels are new.
        base = (1.0 - known.sum(axis=1))[:, None] * corpus
        for f, share in enumerate(shares):
            some = combinations[:, f]
            base[some >= 0] += share * weights[some[some >= 0]]
            base[some == MISSING] += share * corpus
        result = base[at]
        has_groups = np.diff(limits) > 0
        for row, f in np.argwhere((combinations == MISSING) & has_groups):
            docs, own = np.flatnonzero(at == row), slice(limits[f], limits[f + 1])
            parts = shares[f] * (weights[own] - corpus)
            given = base[row], parts, self.n_docs[own], concentration[row]
            q = self.infer(doc_topic[docs], *given)
            result[docs] += q @ parts.astype(np.float32)
        np.maximum(result, LEAST_TABLES, out=result)  # sums of differences round
        result *= concentration[at][:, None]
        return result

    @staticmethod
    def infer(
        doc_topic: sp.csr_array,
        base: Array,
        parts: Array,
        n_docs: Array,
        concentration: float,
    ) -> Array:
        """Probability of each group of a factor, (n_docs, n_groups of the factor).

        `base` (K + 1,) is that of documents without label, and `parts` are what labels
        add to it, (n_groups, K + 1).
        """
        counts = np.maximum(doc_topic.data, LEAST_TABLES)
        n_tokens = np.maximum(doc_topic.sum(axis=1), LEAST_TABLES)
        own = concentration * counts / n_tokens[rows_of(doc_topic.indptr)]
        ratios = np.maximum(base + parts, LEAST_TABLES)
        ratios /= np.maximum(base, LEAST_TABLES)
        # Single precision is enough for logarithms of ratios.
        logs_of = np.log(ratios[:, :-1].T.copy()).astype(np.float32)
        tables = expected_tables(own, counts).astype(np.float32)
        given = tables, doc_topic.indices, doc_topic.indptr, doc_topic.shape
        q = csr(*given) @ logs_of + np.log(1.0 + n_docs).astype(np.float32)
        q -= q.max(axis=1, keepdims=True)
        np.exp(q, out=q)
        q /= q.sum(axis=1, keepdims=True)
        return q


def _share(n_old: float, n_new: float, decay: float) -> float:
    """Weight of new documents beside old ones."""
    return (n_new / max(n_old + n_new, 1.0)) ** decay


def doc_priors(
    groups: Groups,
    posterior: Posterior,
    factors: Factors | None,
    X: sp.csr_array | Documents,
    executor: Executor,
) -> Array:
    """Dirichlet parameters of documents in prediction, (n_docs, K + 1)."""
    groups, state = groups.following(posterior), posterior.state.for_prediction
    documents = X if isinstance(X, Documents) else Documents.of(posterior, X, executor)
    n_docs = documents.batch.n_docs
    codes = groups.codes(factors, n_docs)
    doc_topic = sp.csr_array((n_docs, state.n_components))
    if (codes == MISSING).any():
        seated = documents.infer(executor, stop=NO_MORE, choice=ROUGH)
        doc_topic = seated.doc_topic
    return groups.priors(state.weights, state.doc_concentration, codes, doc_topic)


class LabelledDocuments(NamedTuple):
    """Documents of which groups are learned, wherever they are."""

    doc_topic: sp.csr_array  # (n_docs, K) expected counts
    lengths: Array  # tokens
    fetch: Callable[[Ints], sp.csr_array]  # counts of some documents

    @classmethod
    def of(
        cls, posterior: Posterior, X: sp.csr_array, executor: Executor
    ) -> "LabelledDocuments":
        """Infer the topics of documents in this process."""
        doc_topic = fold_in_posterior(posterior, X, executor).doc_topic
        return cls(doc_topic, np.asarray(X.sum(axis=1)).ravel(), X.__getitem__)

    def deal(self, least: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Choose documents that judge, if there are enough or `least`, and others."""
        order = rng.permutation(len(self.lengths))
        n_held = n_held_out(len(order), self.lengths[order]) or least
        return np.sort(order[:n_held]), np.sort(order[n_held:])


def learn_groups(
    groups: Groups | None,
    posterior: Posterior,
    factors: Factors,
    documents: LabelledDocuments,
    decay: float,
    executor: Executor,
) -> Groups:
    """Learn groups from documents, or more of present ones from further documents.

    Of D documents so far, S of them new, these have the weight (S / D)^decay: topics
    change in a stream. A fifth of the documents judges: present
    groups or, if there are none, those of the other documents.
    """
    state, (doc_topic, lengths, fetch) = posterior.state, documents
    is_first, n_docs = groups is None, len(lengths)
    if groups is None:
        groups = Groups.empty(factors.names, posterior)
    groups = groups.following(posterior).extended(factors)
    codes = groups.codes(factors, n_docs)
    rng = stream(posterior.seed_entropy, Purpose.SPLIT_TOKENS, 2, posterior.n_steps)
    least = 0 if is_first else int(np.ceil(SHARE * n_docs))
    judges, others = documents.deal(least, rng)
    judged = groups
    if is_first:
        judged = groups.learn(doc_topic[others], codes[others], state.weights)
    sums = _judge(judged, posterior, fetch(judges), codes[judges], rng, executor)
    learned = groups.learn(doc_topic, codes, state.weights, decay)
    kept = 1.0 - _share(groups.n_learned, n_docs, decay)
    # Errors of weighted sums go with squares of weights.
    sums += kept ** np.where(IS_SQUARE, 2.0, 1.0) * groups.judged
    return replace(learned, judged=sums)


def learn_kinds(
    n_kinds: int, posterior: Posterior, documents: LabelledDocuments, executor: Executor
) -> Groups:
    """Learn kinds of documents that have no labels, and judge them, see `_judge`."""
    rng = stream(posterior.seed_entropy, Purpose.SPLIT_TOKENS, 2, posterior.n_steps)
    judges, others = documents.deal(0, rng)
    judged = _find_kinds(n_kinds, posterior, documents.doc_topic[others], rng)
    unknown = np.full((len(judges), 1), MISSING)
    some = documents.fetch(judges)
    sums = _judge(judged, posterior, some, unknown, rng, executor)
    found = _find_kinds(n_kinds, posterior, documents.doc_topic, rng)
    return replace(found, judged=sums)


def _find_kinds(
    n_kinds: int, posterior: Posterior, doc_topic: sp.csr_array, rng: Any
) -> Groups:
    """Give each document the most probable kind in turns, and learn kinds from these.

    Kinds start from random documents, and documents of the nearest of them.
    """
    state, n_docs = posterior.state, doc_topic.shape[0]
    roots = doc_topic.sqrt()
    drawn = np.sort(rng.permutation(n_docs)[:n_kinds])
    kinds = np.asarray((roots @ roots[drawn].T).toarray().argmax(axis=1))
    labels = (tuple(range(len(drawn))),)
    groups = empty = Groups.empty(("kind",), posterior)
    for _ in range(N_TURNS):
        factors = Factors(("kind",), False, labels, kinds[:, None])
        groups = empty.extended(factors)
        groups = groups.learn(doc_topic, kinds[:, None], state.weights)
        parts = groups.shares[1] * (groups.weights(state.weights) - state.weights)
        given = groups.n_docs, groups.doc_concentration
        q = groups.infer(doc_topic, state.weights, parts, *given)
        before, kinds = kinds, q.argmax(axis=1)
        if (kinds != before).mean() < MOVED:
            break
    return replace(groups, are_latent=True)


def _judge(
    groups: Groups,
    posterior: Posterior,
    X: sp.csr_array,
    codes: Ints,
    rng: np.random.Generator,
    executor: Executor,
) -> Array:
    """Compare groups with the corpus by held-out tokens of documents, see `judged`.

    Each fifth is predicted from the others, under the concentration of documents with
    groups, so that the weights alone differ: topics have seen these documents, whose
    proportions are sharper than those of others. Latent kinds are judged from a fifth,
    as they matter where few tokens are seen, and under the concentration of each: that
    of kinds is several times as large.
    """
    judges = (codes >= 0).any(axis=1) | groups.are_latent
    X, codes = X[judges], codes[judges]
    numbers, held, observed = zip(*deal_tokens(X, N_FOLDS, rng), strict=True)
    if groups.are_latent:
        held, observed = observed, held
    rows = np.concatenate(numbers)
    if len(rows) == 0:
        return np.zeros(6)
    held_out = HeldOut(
        Corpus(X[:0]),
        rows[:0],
        np.unique(rows, return_inverse=True)[1],
        sp.vstack(observed, format="csr"),
        sp.vstack(held, format="csr"),
    )
    state = posterior.state.for_prediction
    if groups.are_latent:
        own = doc_priors(groups, posterior, None, held_out.observed, executor)
        flat = np.tile(state.doc_concentration * state.weights, (len(rows), 1))
    else:
        codes = np.where(codes >= 0, codes, NEW)[rows]
        none = sp.csr_array((len(rows), len(state.weights) - 1))
        own = groups.priors(state.weights, state.doc_concentration, codes, none)
        flat = own.sum(axis=1, keepdims=True) * state.weights
    new, old = (
        held_out.log_probability(held_out.predict(posterior, executor, priors=priors))
        for priors in (own, flat)
    )
    gains, n = new - old, held_out.n_tokens
    sums = np.ones_like(n), gains, gains**2, gains * n, n, n**2
    return np.array([values.sum() for values in sums])
