"""Estimator of the HDP by Gibbs sampling of the Chinese restaurant franchise."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Annotated, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from skbnp.components.known_topics import TopicPriors
from skbnp.estimators import _base, _known_topics, _samplers
from skbnp.estimators._saved import check_known_topics, check_number, damaged
from skbnp.inference.chains import end_entries
from skbnp.inference.executor import Executor
from skbnp.inference.posterior import Lineage, renamed
from skbnp.models.hdp.fold_in import FixedTopics, MixturePredictor
from skbnp.models.hdp_franchise import chain
from skbnp.models.hdp_franchise import model as franchise
from skbnp.models.hdp_franchise.chain import Priors, draw_topics
from skbnp.rows.batch import Tokens
from skbnp.utils import validation as valid
from skbnp.utils.arrays import names_by_weight, rows_by_id
from skbnp.utils.labels import MISSING, Factors, Label
from skbnp.utils.random import Purpose, stream
from skbnp.utils.ranges import MOST, NotEmpty, Unlimited
from skbnp.utils.typing import Ints, MatrixLike

#: Sweeps from topics at random before documents may repeat words, at most: topics form
#: from all tokens first.
PLAIN_SWEEPS = 15


#: Tokens that hold a frozen topic as it is, of one and of all: many times those of any
#: corpus that a sampler can sweep, and few enough to be counted.
FIXED_TOKENS, ALL_FIXED_TOKENS = 1e8, 1e9


@dataclass(kw_only=True, eq=False, repr=False)
class _Own:
    """Parameters declared for this estimator alone."""

    n_components: int | None = field(default=100, kw_only=False)
    burstiness: bool | str = "auto"
    learn_priors: bool | str = "concentrations"
    split_merge: bool = True
    n_split_merge: int = 5
    split_merge_sweeps: int | None = None
    split_merge_scans: int = 0
    init: Any = None


@dataclass(kw_only=True, eq=False, repr=False)
class _Parameters(_samplers.SamplerParameters, _known_topics.HDPPriors, _Own):
    """Parameters of GibbsHDP."""


class GibbsHDP(
    _Parameters,
    _base.LabelledDocumentsMixin,
    _samplers.TopicSampler,
    _base.ComponentEditsMixin,
):
    """Hierarchical Dirichlet process topic model, by Markov chain Monte Carlo.

    Draws from the posterior, the number of topics included, instead of approximating
    it: slower than `HDP`, and usually better at prediction. Tokens of a document sit at
    tables, and each table serves one dish, a topic. A sweep draws the table of every
    token and the dish of every table given all others (section 3.1 of [1]_);
    split-merge proposals on tables (its Figure 2) and draws of the hyperparameters
    follow. With `burstiness` a token may also repeat an earlier one of its word in the
    document [2]_. Documents may have groups, each with topic weights of its own: a
    third level, section 6 of [4]_. The equations are in :doc:`/derivations/franchise`.

    Parameters
    ----------
    n_components : int or None, default=100
        Dishes to start from, 1 to 1,000,000: each token gets one at random. None seats
        tokens one by one given those before. The chain adds and ends topics as it goes.
    burstiness : "auto" or False, default="auto"
        Whether documents may repeat words for reasons of their own: "auto" learns how
        far they do, whatever `learn_priors` is; False lets topics explain every token.
    learn_priors : bool or "concentrations", default="concentrations"
        Whether to draw both concentrations and the topic prior, which has a Gamma(1, 1)
        prior, in every sweep (True), the concentrations alone, or nothing (False).
    split_merge : bool, default=True
        Whether to propose splits and merges of topics; without, it is plain Gibbs
        sampling.
    n_split_merge : int, default=5
        Proposals after each of the first sweeps, at least 1.
    split_merge_sweeps : int or None, default=None
        Sweeps that make proposals, >= 0; None: those of the burn-in.
    split_merge_scans : int, default=0
        Intermediate restricted Gibbs scans of a proposal [3]_, >= 0. 0: the sequential
        allocation of [1]_, which costs one scan; n cost n + 2.
    init : fitted topic model or None, default=None
        Topics to start from instead of random ones, of any model with `components_` of
        counts: each token draws one given its document. Wrap it in
        `sklearn.frozen.FrozenEstimator` where the estimator will be cloned.
    doc_concentration : float, default=1.0
        Concentration of a document's topics (alpha_0), in [1e-100, 1e10]. Where it is
        learned, the start.
    corpus_concentration : float, default=1.0
        Concentration of the corpus weights (gamma), in [1e-100, 1e10]; larger values
        make more topics; likewise.
    topic_word_prior : float, dict, array-like or KnownTopics, default=0.05
        Dirichlet parameter of topics over terms (eta), in [1e-100, 1e10]; smaller
        values make more and more specific topics. The value to start from, likewise.
        Or topics that are known: seed words by name, or the prior of each, (n_known,
        n_features), in whole tokens; :class:`KnownTopics` has more options.
    corpus_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the concentrations' Gamma priors, both > 0.
    max_iter : int, default=500
        Sweeps of each chain; in `partial_fit`, over each chunk.
    burn_in : int or None, default=None
        First sweeps of a chain, of which no sample is kept, below `max_iter`; None
        means half of `max_iter`.
    thin : int, default=25
        Sweeps from one kept sample to the next; the last states where none is kept.
    n_chains : int, default=1
        Independent chains, 1 to 1000, which run side by side on `n_jobs` threads.
    sparse_output : bool, default=False
        Whether `transform` returns a csr_array, of topics with tokens alone.
    n_jobs : int or None, default=None
        Threads for chains and for prediction; results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Names the draws. The same int gives the same bits.
    verbose : int, default=0
        Sweeps between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())`` (scikit-learn 1.9 or later).
    warm_start : bool, default=False
        Whether `fit` goes on. On the same documents chains continue exactly, as one
        longer fit with that burn-in (None is what it was); on others, or after
        `partial_fit` or an edit, new chains start from the present topics.

    Attributes
    ----------
    samples_ : list of samples
        Kept states of all chains: `topic_word_counts` (csr_array, without repeats),
        `table_counts`, `component_ids`, hyperparameters, `log_joint` (nats per token),
        `chain` and `step`. Before the first is kept, and after `partial_fit`, the
        present states.
    components_ : ndarray of shape (n_components_, n_features)
        Counts plus `topic_word_prior_` of the sample with the highest log joint. Topics
        are not aligned between samples: this and the next five are of that one alone.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Computed at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected corpus-level weights; what they lack to one is of other topics.
    n_components_ : int
        Number of topics.
    component_ids_ : ndarray of shape (n_components_,)
        The number of each topic, stable within its chain: the one that `summary`,
        figures, `get_feature_names_out` and edits go by.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id of that sample came from: the start, then "birth", "prune",
        "split" and "merge" of each sweep. Ended ids never return.
    n_active_components_ : int
        Topics with at least max(1, 1e-4 of all) tokens that repeat no other.
    doc_concentration_, corpus_concentration_ : float
        Values of that sample.
    groups_ : ndarray of shape (n_groups,)
        Labels of groups, if `fit` had some, in their order.
    group_weights_ : ndarray of shape (n_groups, n_components_)
        Expected topic weights of each group in that sample; the rest to one as in
        `topic_weights_`. Documents have `doc_concentration_` around these.
    group_concentration_ : float
        Concentration of the weights of groups around those of the corpus, likewise.
        Infinite if there is one group.
    topic_word_prior_ : float or ndarray of shape (n_components_, n_features)
        Value of that sample. Where topics are known, the prior of each.
    word_discount_, word_concentration_ : float
        Discount d, in [0, 1), and concentration c of the words in each document, of
        that sample. 0.0 and infinity: topics explain every token.
    n_components_posterior_ : dict of int to float
        Number of topics -> share of the sweeps after burn-in that had it, all chains.
    log_joint_ : float
        Log joint probability of words, seating and learned hyperparameters after the
        last sweep, in nats per token.
    history_ : dict of lists
        One entry per sweep and chain, burn-in included: `step`, `chain`, `seconds`
        (elapsed wall time), `n_components`, `n_tables`, `log_joint` (nats per token),
        `n_splits` and `n_merges` accepted so far, and the hyperparameters.
        Streams keep 10,000 entries at most, fewer of the older half.
    n_iter_ : int
        Sweeps made by the last `fit`; calls of `partial_fit` add one.
    n_features_in_ : int
        Size of the vocabulary.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the terms, if `X` had them.

    See Also
    --------
    HDP : Variational learning of the same model, faster and for streams.

    Notes
    -----
    `score` averages probabilities over `samples_`; `transform` uses the sample with the
    highest log joint, and has proportions of first uses, which topics explain. A sweep
    takes some 0.1 to 0.2 microseconds per token in a settled chain, memory is 40 to 60
    bytes per token, and some 30 for each further chain. Only chains run side by side.

    In the burn-in, and in chunks of `partial_fit`, known topics exchange tables with
    the topics that have twice as many of their words. That is no move of the sampler:
    it decides which mode later sweeps draw from, and these have none.

    Departures from the paper are listed in `doc/derivations/franchise.rst`.

    References
    ----------
    .. [1] Chong Wang and David M. Blei, "A Split-Merge MCMC Algorithm for the
       Hierarchical Dirichlet Process", 2012.
    .. [2] Wray Buntine and Swapnil Mishra, "Experiments with Non-parametric Topic
       Models", KDD 2014.
    .. [3] Sonia Jain and Radford M. Neal, "A Split-Merge Markov Chain Monte Carlo
       Procedure for the Dirichlet Process Mixture Model", Journal of Computational and
       Graphical Statistics 13, 2004.
    .. [4] Yee Whye Teh, Michael I. Jordan, Matthew J. Beal and David M. Blei,
       "Hierarchical Dirichlet Processes", JASA 2006.

    Examples
    --------
    >>> from skbnp import GibbsHDP
    >>> from skbnp.datasets import make_bars
    >>> X = make_bars(100, random_state=0).data
    >>> hdp = GibbsHDP(max_iter=20, thin=5, random_state=0).fit(X)
    >>> [sample.step for sample in hdp.samples_]
    [15, 20]
    >>> hdp.transform(X).shape == (100, hdp.n_components_)
    True
    """

    samples_: Annotated[list[franchise.FranchiseSample], NotEmpty]
    _kept: list[franchise.FranchiseSample]
    _chains: tuple[chain.FranchiseState, ...] | None
    _known: TopicPriors | None = None  # topics that are known before a fit
    #: The factor of groups of documents, and its labels, if there were any.
    _groups: tuple[tuple[str, ...], tuple[tuple[Label, ...], ...]] | None = None

    # Fitted
    doc_concentration_: float
    corpus_concentration_: float
    topic_word_prior_: float | np.ndarray
    word_discount_: float
    word_concentration_: Unlimited

    _parameter_constraints: dict = _base.constraints_of(
        _Parameters,
        n_components=[valid.Interval(Integral, 1, 10**6, closed="both"), None],
        init=[valid.HasMethods(["transform", "score"]), None],
    )

    # -- learning ---------------------------------------------------------------------

    _columns = chain.COLUMNS

    @valid.fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Sample topics of all documents, and what groups of these use.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents. Fractional counts are rounded to whole tokens,
            with a `DataConversionWarning`.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            step as a whole.
        groups : array-like of shape (n_samples,), default=None
            Labels of the documents, such as types of tumours. None, nan or NA is a
            missing one: the document has the weights of the corpus. Each group has
            topic weights of its own, drawn with all else: a third level of the HDP. One
            label for all is a fit without groups. Of several factors pass their pairs
            as labels. `partial_fit` takes no labels: documents of its chunks have the
            weights of the corpus.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete sweep.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns, a
            document of more than 10^8 tokens or more than 2^31 - 1 in all, if its rows
            are shares of one, of which rounding leaves nothing, `groups` has not one
            label for each row, or a parameter is outside its range.

        Warns
        -----
        UserWarning
            If values are no counts or multiples of these, or a column is no word but a
            number of the row, a total, or most of all tokens.
        ConvergenceWarning
            If different documents are too few to tell how many topics there are, or if
            R-hat of the number of topics or of the log joint is above 1.1 over the
            sweeps after burn-in (at least eight of them): the chains, or the halves of
            one, have not come to the same posterior.
        """
        return self._fit(X, y, sample_weight=sample_weight, groups=groups)

    def _check_groups(self, X: MatrixLike, groups: Any) -> Factors | None:
        if groups is None:
            return None
        factors = _base.labels_of(X, groups)
        if len(factors.names) > 1:
            raise ValueError(
                f"groups must be labels by one factor, got {len(factors.names)}. HDP "
                "takes several; GibbsHDP takes their pairs as labels."
            )
        return factors

    def _known_groups(self):
        return self._groups

    def _read(self, X, *, reset: bool, method: str, sample_weight=None, groups=None):
        """Read documents; those that have groups come in their order, others last."""
        factors, known = self._check_groups(X, groups), None
        data = super()._read(X, reset=reset, method=method, sample_weight=sample_weight)
        codes = np.full(len(data.rows), MISSING)
        if factors is not None:
            known, codes = (factors.names, factors.labels), factors.codes[data.rows, 0]
        elif method == "partial_fit":
            known = self._groups
        n_groups = 0 if known is None else len(known[1][0])
        if n_groups < 2:
            return replace(data, groups=known)
        codes = np.where(codes < 0, n_groups, codes)
        order = np.argsort(codes, kind="stable")
        counts = data.counts[order]
        limits = np.searchsorted(codes[order], np.arange(n_groups + 2))
        tokens = Tokens.from_counts(counts)
        return _samplers.TokenCorpus(counts, tokens, data.rows[order], known, limits)

    def _account(self, n_before, data, *, adds):
        account = super()._account(n_before, data, adds=adds)
        return account | {"_groups": data.groups}

    def _check_consistency(self, goes_on: bool) -> None:
        self._priors()

    def _check_init(self, X, n_features: int) -> None:
        if self.init is not None:
            _known_topics.check_names(self.init, X)
            _known_topics.given_topics(self.init, n_features)

    def _priors(self) -> Priors:
        return Priors(
            learn_concentrations=self.learn_priors is not False,
            learn_topic_prior=self.learn_priors is True,
            corpus=valid.check_gamma_prior(self, "corpus_concentration_prior"),
            doc=valid.check_gamma_prior(self, "doc_concentration_prior"),
        )

    def _make_chain(
        self, data, seed_entropy, start, number, *, burn_in=None, before=None
    ):
        may_repeat = self.burstiness == "auto"
        if (
            isinstance(start, chain.FranchiseState)
            and start.concentrations.has_repeats
            and not may_repeat
        ):
            raise ValueError(
                "burstiness=False with warm_start=True, but the documents of this fit "
                'repeat words. Go on with burstiness="auto", or fit anew.'
            )
        is_prior = before is None
        known = self._note_known(data) if is_prior else self._known
        if known is not None:
            counts = self._whole(known, data.counts.shape[1])
            if is_prior:
                prior = start.concentrations
                before = franchise.FranchiseSample.of_prior(
                    counts, known.columns, prior
                )
            values = counts[:, known.words].T.toarray().astype(np.float64)
            known = replace(known, values=values, is_whole=False)
        repeats_from = min(PLAIN_SWEEPS, (burn_in or 0) // 2) if may_repeat else None
        sweeps = self.split_merge_sweeps
        moves = self.split_merge and burn_in is not None
        return chain.FranchiseChain(
            data.tokens,
            self._priors(),
            seed_entropy,
            start,
            number=number,
            n_proposals=self.n_split_merge if moves else 0,
            proposal_sweeps=(burn_in or 0) if sweeps is None else sweeps,
            n_scans=self.split_merge_scans,
            before=before,
            before_is_prior=is_prior,
            known=known,
            exchange_sweeps=np.inf if burn_in is None else burn_in,
            repeats_from=repeats_from,
            group_limits=data.group_limits,
        )

    def _accept(self, counts, X, *, reset, method):
        counts = super()._accept(counts, X, reset=reset, method=method)
        if reset:
            names, n = valid.feature_names_of(X), counts.shape[1]
            prior, most = self.topic_word_prior, self.n_components
            may_come = method != "fit" and names is not None
            known = _known_topics.resolve(prior, n, names, most, may_come=may_come)
            if known is not None and known.is_whole:
                self._whole(known.known(np.zeros(n)), n)
        return counts

    def _note_known(self, data: _samplers.TokenCorpus) -> TopicPriors | None:
        """Record the known topics before anything is learned; columns are ids.

        Returns these, or those known when the fit began.
        """
        if not self.__sklearn_is_fitted__():
            names = getattr(self, "feature_names_in_", None)
            n_words = data.counts.shape[1]
            given = self.topic_word_prior, n_words, names, None
            known = _known_topics.resolve(*given, may_come=True)
            self._forget("_known")
            if known is not None:
                counts = np.asarray(data.counts.sum(axis=0)).ravel()
                self._known = replace(known.known(counts), columns=known.order)
        return self._known

    def _whole(self, known: TopicPriors, n_words: int) -> sp.csr_array:
        """Boosts of known topics as whole tokens, (G, V)."""
        shape = len(known.columns), n_words
        values = known.boosts
        if known.is_fixed.any():
            most = min(FIXED_TOKENS, ALL_FIXED_TOKENS / len(known.columns))
            values = known.values * (most / known.values.sum(axis=0))
        tokens = np.rint(np.maximum(values, 0.0)).astype(np.int32)
        lost = np.flatnonzero(tokens.sum(axis=0) == 0)
        if len(lost) and known.is_whole:
            raise ValueError(
                f"topic_word_prior[{lost[0]}] exceeds the prior of other topics, "
                f"{known.eta:g}, by less than a token, and GibbsHDP counts whole "
                "tokens. Multiply the row by the number of tokens that it is worth."
            )
        topics, words = np.nonzero(tokens.T)
        parts = (tokens.T[topics, words], (topics, known.words[words]))
        return sp.csr_array(parts, shape)

    def _widened(self, sample, data, vocabulary):
        n_before = sample.topic_word_counts.shape[1]
        sample, features = super()._widened(sample, data, vocabulary)
        known = self._known
        if known is None:
            return sample, features
        words = np.asarray(data.counts.sum(axis=0)).ravel()
        known = known.widened(n_before, data.counts.shape[1])
        given = self.topic_word_prior, known.columns
        boosts = _known_topics.new_boosts(*given, vocabulary.names, n_before, words)
        if boosts is not None:
            known = known.boosted(*boosts)
            more = self._whole(known, data.counts.shape[1])
            more.data[more.indices < n_before] = 0
            place = {n: row for row, n in enumerate(sample.component_ids.tolist())}
            rows = [place[name] for name in known.columns.tolist()]
            parts = np.ones(len(rows), np.int32), (rows, np.arange(len(rows)))
            move = sp.csr_array(parts, (len(place), len(rows)))
            counts = sp.csr_array(sample.topic_word_counts + move @ more)
            counts.eliminate_zeros()
            counts.sort_indices()
            sample = replace(sample, topic_word_counts=counts.astype(np.int32))
        return sample, features | {"_known": known}

    def _start(self, goes_on: bool) -> chain.FranchiseStart:
        """Return a start without tables: tokens are seated one by one."""
        words = franchise.NONE
        if not goes_on:
            return chain.FranchiseStart(
                concentrations=franchise.Concentrations(
                    float(self.corpus_concentration),
                    float(self.doc_concentration),
                    _known_topics.base_prior(self.topic_word_prior),
                )
            )
        best = self._best()
        if best.has_repeats and self.burstiness == "auto":
            words = best.word_discount, best.word_concentration
        return chain.FranchiseStart(
            concentrations=franchise.Concentrations(
                best.corpus_concentration,
                best.doc_concentration,
                best.topic_word_prior,
                *words,
                group_concentration=best.group_concentration,
            ),
            lineage=self.lineage_,
            next_id=self._next_id,
            step=self._latest_step(),
        )

    def _starts(
        self, data: _samplers.TokenCorpus, seed_entropy: int, goes_on: bool
    ) -> Iterator[chain.FranchiseStart]:
        topics: FixedTopics | franchise.FranchiseSample | None = None
        known = self._note_known(data)
        start, tokens, counts = self._start(goes_on), data.tokens, data.counts
        if goes_on:
            topics = self._best()
        elif self.init is not None:
            given = _known_topics.given_topics(self.init, counts.shape[1])
            concentration = given.doc_concentration or self.doc_concentration
            rest = max(1.0 - given.weights.sum(), 0.0)
            prior = concentration * np.append(given.weights, rest)
            topics = FixedTopics(given.distr, prior)
        if topics is None and self.n_components is None:
            yield from [start] * self.n_chains
            return
        for number in range(self.n_chains):
            rng = stream(seed_entropy, Purpose.START, number)
            if topics is None:
                dish = rng.integers(0, self.n_components, len(tokens), dtype=np.int32)
            else:
                with Executor(self.n_jobs) as executor:
                    dish = draw_topics(tokens, counts, topics, rng, executor)
            tables, served = franchise.TableAssignments.one_per_dish(tokens, dish)
            del dish
            if goes_on:
                present = self._best().component_ids
                if known is not None:
                    tables, served = _known_first(tables, served, known, present)
                ids, ended = present[served], np.delete(present, served)
                log = [*start.lineage, *end_entries(start.step, ended)]
                yield replace(start, tables=tables, ids=ids, lineage=log)
            else:
                if known is not None:
                    n_known = len(known.columns)
                    names = np.arange(n_known, n_known + served.max(initial=-1) + 1)
                    if topics is None:
                        names[:n_known] = known.columns[: len(names)]
                    tables, _ = _known_first(tables, served, known, names)
                yield replace(start, tables=tables)

    def _shown(
        self, kept: list[franchise.FranchiseSample], chains: list[chain.FranchiseChain]
    ) -> list[franchise.FranchiseSample]:
        """Kept samples with burstiness, or without, as the chains have it now.

        Log joints of others are not comparable.
        """
        may_repeat = chains[0].state.concentrations.has_repeats
        return [sample for sample in kept if sample.has_repeats == may_repeat]

    def _numbered(self, attributes: dict[str, Any]) -> dict[str, Any]:
        samples, chains = attributes["samples_"], attributes["_chains"]
        best, known = _samplers.best_of(samples), self._known
        n_named = max(state.next_id for state in chains)
        n_fixed = 0  # known ones keep their numbers
        if known is not None:
            n_fixed = int(known.columns.max()) + 1
        ids = best.component_ids
        names = names_by_weight(ids, best.n_tokens, n_named, n_fixed)
        made = {
            id(sample): replace(sample, component_ids=names[sample.component_ids])
            for sample in (*samples, *attributes["_kept"])
        }
        _base.send_new_ids(self, names)
        return {
            **attributes,
            "samples_": [made[id(sample)] for sample in samples],
            "_kept": [made[id(sample)] for sample in attributes["_kept"]],
            "_chains": tuple(
                replace(
                    state,
                    ids=names[state.ids],
                    lineage=renamed(state.lineage, names),
                    next_id=n_named,
                )
                for state in chains
            ),
            "_next_id": n_named,
            "lineage_": renamed(attributes["lineage_"], names),
            **self._attributes_of(made[id(best)]),
        }

    def _attributes_of(self, best: franchise.FranchiseSample) -> dict[str, Any]:
        rows = rows_by_id(best.component_ids)
        return {
            "n_components_": len(best.component_ids),
            "component_ids_": best.component_ids[rows],
            "topic_weights_": best.topic_weights[rows],
            "doc_concentration_": best.doc_concentration,
            "corpus_concentration_": best.corpus_concentration,
            "topic_word_prior_": self._prior_of(best, rows),
            **(
                {}
                if self._known is None
                else _known_topics.given_names(self, best.component_ids)
            ),
            "word_discount_": best.word_discount,
            "word_concentration_": best.word_concentration,
        }

    def _prior_of(
        self, sample: franchise.FranchiseSample, rows: Ints
    ) -> float | np.ndarray:
        """Dirichlet parameter of topics, or those of each, (n_components_, V)."""
        known = self._known
        if known is None:
            return sample.topic_word_prior
        shape = len(rows), sample.topic_word_counts.shape[1]
        prior = np.full(shape, sample.topic_word_prior)
        ids = sample.component_ids[rows]
        whole = self._whole(known, shape[1])
        for place, name in enumerate(known.columns.tolist()):
            prior[ids == name] += whole[[place]].toarray()
        return self._restore_fixed_topics(prior, ids)

    def _restore_fixed_topics(self, topics: np.ndarray, ids: Ints) -> np.ndarray:
        """Overwrite fixed topics with their given words, in place, and return all."""
        known = self._known
        if known is not None:
            for place in np.flatnonzero(known.is_fixed).tolist():
                row = np.flatnonzero(ids == known.columns[place])
                topics[row[:, None], known.words] = known.values[:, place]
        return topics

    def _publish(self, attributes: dict[str, Any]) -> None:
        """Set fitted attributes, in place, with the names of known topics."""
        super()._publish(attributes)
        if "_known" in attributes:  # of more words than before
            best = self._best()
            prior = self._prior_of(best, rows_by_id(best.component_ids))
            self.topic_word_prior_ = prior

    def _warn_of_components(self) -> None:
        """Warn if priors of seed words outweigh the documents of their topics."""
        known = self._known
        if known is not None and not known.is_whole:
            boosts = self._whole(known, self.n_features_in_).sum(axis=1)
            place = {name: row for row, name in enumerate(self.component_ids_.tolist())}
            rows = [place[name] for name in known.columns.tolist()]
            given = self.topic_word_prior, known.columns
            _known_topics.warn_of_heavy_priors(*given, boosts, self._topic_tokens[rows])

    def _check_saved(self) -> None:
        super()._check_saved()
        known = self._known
        if known is not None:
            most = max(self._next_id, 1)
            check_known_topics(known, most, self.n_features_in_, known.eta)

    def _check_sample(
        self, sample: franchise.FranchiseSample, sizes: dict[str, int]
    ) -> None:
        _check_repeats(sample)
        tables = sample.group_tables
        if tables is not None:
            if self._groups is None or len(tables) != len(self._groups[1][0]) + 1:
                raise damaged("group_tables", "is not of the groups of the fit")
            if (tables.sum(axis=0) < sample.table_counts).any():
                raise damaged("group_tables", "has fewer tables than the corpus")
            check_number("group_tables", tables.sum(), least=0, most=MOST)

    def _check_chain(self, state: chain.FranchiseState) -> None:
        _check_repeats(state.concentrations)

    # -- editing ----------------------------------------------------------------------

    @property
    def _known_ids(self) -> np.ndarray:
        return np.arange(0) if self._known is None else self._known.columns

    @property
    def _frozen_ids(self) -> np.ndarray:
        known = self._known
        return np.arange(0) if known is None else known.columns[known.is_fixed]

    def _merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        ids = self._best().component_ids.tolist()
        onto = np.arange(len(ids))
        for source, target in pairs:
            onto[onto == ids.index(source)] = ids.index(target)
        step = self._latest_step()
        self._edit(onto, [Lineage(step, "merge", (t, s), (t,)) for s, t in pairs])

    def _drop(self, ids: list[int]) -> None:
        present, step = self._best().component_ids, self._latest_step()
        onto = np.where(np.isin(present, ids), -1, np.arange(len(present)))
        self._edit(onto, [Lineage(step, "prune", (name,), ()) for name in ids])

    def _edit(self, onto: Ints, log: list[Lineage]) -> None:
        """Re-index topics of the best sample: they are added up, or removed (-1).

        All other samples are dropped.
        """
        sample = self._best()
        rows = np.flatnonzero(onto >= 0)
        places, at = np.unique(onto[rows], return_inverse=True)
        add = sp.csr_array(
            (np.ones(len(rows), np.int32), (at, rows)), (len(places), len(onto))
        )
        tables = (add @ sample.table_counts).astype(np.int32)
        order, group_tables = np.argsort(-tables, kind="stable"), sample.group_tables
        if group_tables is not None:
            group_tables = (group_tables @ add.T)[:, order].astype(np.int32, order="C")
        edited = replace(
            sample,
            topic_word_counts=sp.csr_array(add @ sample.topic_word_counts)[order],
            table_counts=tables[order],
            component_ids=sample.component_ids[places][order],
            group_tables=group_tables,
        )
        self._publish(
            {"samples_": [edited], "_kept": [], "_chains": None, "_data": None}
        )
        self.lineage_ = [*self.lineage_, *log]
        if self._known is not None:
            self._known = self._known.among(sample.component_ids[places].tolist())

    def _publish_edits(self) -> None:
        best = self._best()
        n_components = len(best.component_ids)
        for entry in reversed(range(len(self.history_["chain"]))):
            if self.history_["chain"][entry] == best.chain:
                self.history_["n_components"][entry] = n_components
                break
        self._publish(
            {
                "n_components_posterior_": {n_components: 1.0},
                **self._attributes_of(best),
            }
        )

    # -- evaluation: reads samples, writes nothing, draws nothing ----------------------

    @property
    def components_(self) -> np.ndarray:
        """Counts plus topic prior of the best sample, (n_components_, V)."""
        best = self._best()
        rows, prior = rows_by_id(best.component_ids), self.topic_word_prior_
        if np.ndim(prior):  # counts hold what known topics have beyond it
            prior = best.topic_word_prior
        topics = best.topic_word_counts[rows].toarray() + float(prior)
        return self._restore_fixed_topics(topics, best.component_ids[rows])

    @property
    def n_active_components_(self) -> int:
        """Topics with at least max(1, 1e-4 of all) tokens."""
        return int(_base.are_in_use(self._topic_tokens).sum())

    @property
    def _topic_tokens(self) -> np.ndarray:
        """Tokens of each topic, (n_components_,), without priors.

        If documents repeat words, first uses alone.
        """
        best, known = self._best(), self._known
        tokens = best.n_tokens.astype(np.int64)
        if known is not None:
            n_words = best.topic_word_counts.shape[1]
            prior = self._whole(known, n_words).sum(axis=1, dtype=np.int64)
            place = dict(zip(known.columns.tolist(), prior.tolist(), strict=True))
            tokens -= [place.get(name, 0) for name in best.component_ids.tolist()]
        return tokens[rows_by_id(best.component_ids)]

    def _predictor(self, factors: Factors | None = None) -> MixturePredictor:
        valid.check_is_fitted(self)
        predictor, known = MixturePredictor(self.samples_, repeats=True), self._groups
        if known is None or self._best().group_tables is None:
            return predictor
        codes = None if factors is None else factors.codes_in(*known)[:, 0]
        return replace(predictor, doc_priors=partial(chain.group_priors, codes))

    def _doc_topics(
        self, counts: sp.csr_array, factors: Factors | None = None
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        best, predictor = self._best(), self._predictor(factors)
        with Executor(self.n_jobs) as executor:
            prior = best.doc_prior
            if predictor.doc_priors is not None:
                prior = predictor.doc_priors(best, counts, executor)
                predictor = replace(predictor, doc_priors=lambda *_: prior)
            result = predictor.infer_counts(best, counts, executor)
        return result, prior[..., :-1], rows_by_id(best.component_ids)

    @property
    def groups_(self) -> NDArray:
        """Labels of groups, (n_groups,)."""
        valid.check_is_fitted(self)
        if self._groups is None:
            raise AttributeError("This GibbsHDP has no groups: fit had no labels.")
        return np.array(self._groups[1][0])

    @property
    def group_weights_(self) -> np.ndarray:
        """Expected topic weights of groups, (n_groups, n_components_)."""
        n_groups, best = len(self.groups_), self._best()
        if best.group_tables is None:
            return np.tile(self.topic_weights_, (n_groups, 1))
        return best.group_weights[:, rows_by_id(best.component_ids)]

    @property
    def group_concentration_(self) -> float:
        """Concentration of the weights of groups; infinite: they are the corpus's."""
        best, _ = self._best(), self.groups_
        return np.inf if best.group_tables is None else best.group_concentration

    def _expected_uses(self, counts: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
        """Expected uses of topics in documents, (n_docs, n_components_), and of words.

        If documents repeat words, first uses alone.
        """
        best = self._best()
        with Executor(self.n_jobs) as executor:
            result, uses = self._predictor().infer_uses(best, counts, executor)
        return result[:, rows_by_id(best.component_ids)], uses


def _known_first(
    tables: franchise.TableAssignments, served: Ints, known: TopicPriors, names: Ints
) -> tuple[franchise.TableAssignments, Ints]:
    """Renumber dishes so that known ones come first; `names` are ids of all."""
    place = {name: number for number, name in enumerate(known.columns.tolist())}
    rank = np.array([place.get(name, -1) for name in names.tolist()], dtype=np.intp)
    first = np.flatnonzero(rank >= 0)
    first = first[np.argsort(rank[first])]
    others = served[rank[served] < 0]
    number = rank.astype(np.int32)
    number[others] = len(known.columns) + np.arange(len(others))
    dish = number[served][tables.dish]
    return replace(tables, dish=dish), np.concatenate([first, others])


def _check_repeats(state: franchise.Concentrations) -> None:
    """Raise unless discount and concentration are in range, or both of no repeats."""
    if (state.word_discount, state.word_concentration) != franchise.NONE:
        least, most = franchise.DISCOUNTS
        check_number("word_discount", state.word_discount, least=least, most=most)
        concentration = state.word_concentration
        check_number("word_concentration", concentration, least=1e-300, most=1e100)
