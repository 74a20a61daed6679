"""The HDP topic model by Gibbs sampling of the Chinese restaurant franchise."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.callback import CallbackSupportMixin

from skbnp.estimators._base import (
    CONSTRAINTS,
    ComponentEditsMixin,
    FitTasks,
    TopicModelMixin,
    drop_empty,
)
from skbnp.inference.chains import ChainMonitor, run_chains
from skbnp.inference.edits import Lineage
from skbnp.inference.executor import Executor
from skbnp.inference.franchise import COLUMNS, ChainState, FranchiseChain, Start
from skbnp.inference.monitor import shown
from skbnp.metrics._held_out import expected_topics, fold_in
from skbnp.models.hdp_franchise import (
    Concentrations,
    FixedTopics,
    FranchiseSample,
    Priors,
    Tables,
    Tokens,
)
from skbnp.utils.random import Purpose, draw_entropy, stream
from skbnp.utils.validation import (
    HasMethods,
    Interval,
    check_documents,
    check_gamma_prior,
    check_is_fitted,
    fit_context,
    whole_counts,
)

__all__ = ["GibbsHDP"]

#: Products of tokens and topics at a time, where a fitted model seats tokens.
PRODUCTS = 1 << 22


class GibbsHDP(
    CallbackSupportMixin,
    TopicModelMixin,
    ComponentEditsMixin,
    TransformerMixin,
    BaseEstimator,
):
    """Hierarchical Dirichlet process topic model, by Markov chain Monte Carlo.

    Draws from the posterior, the number of topics included, instead of approximating
    it: slower than `HDP`, and usually better at prediction. Tokens of a document sit
    at tables, and each table serves one dish (a topic) to all its tokens. With the
    symbols of [1]_:

    - a token sits down at a table of its document by its number of tokens n_jt, or at
      a new one by alpha_0;
    - a new table gets a dish by the number of tables m_k that serve it already, or a
      new dish by gamma;
    - the dish is a topic phi_k ~ Dirichlet(eta); its tokens' words are drawn from it.

    Topics and weights are integrated out. A sweep draws the table of every token and
    the dish of every table given all others, Eqs. (5) to (9) of [1]_ and its appendix;
    split-merge Metropolis-Hastings proposals on tables (Algorithm 1 of [1]_) and draws
    of the hyperparameters follow.

    Parameters
    ----------
    n_components : int or None, default=100
        Dishes to start from, at least 1: each token gets one at random. None seats
        tokens one by one given those before, which takes more sweeps to recover from
        where `topic_word_prior` is small. The chain adds and ends topics as it goes.
    corpus_concentration : float, default=1.0
        Concentration of the corpus weights (gamma), in [1e-100, 1e10]; larger values
        make more topics. The value to start from, where it is learned.
    doc_concentration : float, default=1.0
        Concentration of a document's topics (alpha_0), in [1e-100, 1e10]; larger
        values mix more topics in a document. The value to start from, likewise.
    topic_word_prior : float, default=0.05
        Dirichlet parameter of topics over terms (eta), in [1e-100, 1e10]; smaller
        values make more and more specific topics. The value to start from, likewise.
    learn_priors : bool or "concentrations", default="concentrations"
        Whether to draw both concentrations and the topic prior in every sweep (True),
        the concentrations alone, or nothing (False). The topic prior has a
        Gamma(1, 1) prior.
    corpus_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the concentrations' Gamma priors, both > 0.
    split_merge : bool, default=True
        Whether to propose splits and merges of topics; without, it is plain Gibbs
        sampling.
    n_split_merge : int, default=5
        Proposals after each of the first sweeps, at least 1.
    split_merge_sweeps : int or None, default=None
        Sweeps that make proposals, >= 0; None: those of the burn-in.
    max_iter : int, default=500
        Sweeps of each chain; in `partial_fit`, over each chunk.
    burn_in : int or None, default=None
        First sweeps of a chain, of which no sample is kept, below `max_iter`; None
        means half of `max_iter`.
    thin : int, default=25
        Sweeps from one kept sample to the next. Where none is kept, the last states of
        the chains are the samples.
    n_chains : int, default=1
        Independent chains, which run side by side on `n_jobs` threads.
    init : fitted HDP or None, default=None
        Topics to start from instead of random ones: each token draws one given its
        document. Wrap it in `sklearn.frozen.FrozenEstimator` where the estimator will
        be cloned, as by `GridSearchCV`.
    n_jobs : int or None, default=None
        Threads for chains and for prediction, as in scikit-learn. Results do not
        depend on it.
    random_state : int, RandomState instance or None, default=None
        Names the draws. The same int gives the same bits.
    verbose : int, default=0
        Sweeps between messages; 0 for none. For a progress bar use
        ``set_callbacks(sklearn.callback.ProgressBar())``.
    warm_start : bool, default=False
        Whether `fit` goes on. On the same documents chains continue exactly, as one
        longer fit with that burn-in would have gone (None is what it was); on others,
        or after `partial_fit` or an edit, new chains start from the present topics.
        Values to start from are those of the first fit alone.

    Attributes
    ----------
    samples_ : list of samples
        Kept states of all chains: `topic_word_counts` (csr_array of shape
        (n_components, n_features)), `table_counts` and `component_ids`
        (n_components,), `doc_concentration`, `corpus_concentration`,
        `topic_word_prior`, `log_joint` (nats per token), `chain` and `step`. Before
        the first is kept, and after `partial_fit`, the present states.
    components_ : ndarray of shape (n_components_, n_features)
        Counts plus `topic_word_prior_` of the sample with the highest log joint, most
        tables first. Topics are not aligned between samples, so this and the next five
        speak of that sample alone. Made anew at each access.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one. Made anew at each access.
    topic_weights_ : ndarray of shape (n_components_,)
        Expected corpus-level weights m_k / (m + gamma); what they lack to one belongs
        to topics not represented.
    n_components_ : int
        Number of topics.
    component_ids_ : ndarray of shape (n_components_,)
        Names of the topics, stable within their chain.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id of that sample came from: the start, then of each sweep the topics
        born and ended by Gibbs steps ("birth", "prune") and accepted splits and
        merges. Ended ids never return.
    n_active_components_ : int
        Topics with at least max(1, 1e-4 of all) tokens.
    doc_concentration_, corpus_concentration_, topic_word_prior_ : float
        Values of that sample.
    n_components_posterior_ : dict of int to float
        Number of topics -> share of the sweeps after burn-in that had it, all chains.
    log_joint_ : float
        Log joint probability of words, seating and learned hyperparameters after the
        last sweep, in nats per token.
    history_ : dict of lists
        One entry per sweep and chain, burn-in included: `step`, `chain`, `seconds`
        (elapsed wall time), `n_components`, `n_tables`, `log_joint` (nats per token),
        `n_splits` and `n_merges` accepted so far, and the hyperparameters.
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
    Prediction (`score`) averages probabilities over `samples_`; a document is folded in
    by the variational document step, deterministic, under the Dirichlet prior with
    parameters alpha_0 m_k / (m + gamma). `transform` uses the sample with the highest
    log joint.

    A sweep takes time in proportion to the tokens times the topics that their words
    have, some 0.1 to 0.2 microseconds per token in a settled chain. Memory is about 40
    bytes per token and chain. Only chains run side by side: one chain is sequential. An
    interrupt waits for the document in hand.

    **Departures from the paper**

    - Allocation in split-merge proposals uses the words allocated so far, as sequential
      allocation must; the paper's notation suggests all words of the topic. Its
      Eq. (10) has a stray parenthesis.
    - A merge whose ratio of joint probabilities alone rules it out is rejected before
      it is worked out.
    - The dish of a table of one token is not drawn once more: its token draws table and
      dish together. That of a table of more than 16 tokens is drawn by a
      Metropolis-Hastings step, in which 16 of its tokens propose. Both leave the
      posterior as it is.
    - Gamma priors are given by shape and rate.

    References
    ----------
    .. [1] Chong Wang and David M. Blei, "A Split-Merge MCMC Algorithm for the
       Hierarchical Dirichlet Process", 2012.
    .. [2] Yee Whye Teh, Michael I. Jordan, Matthew J. Beal and David M. Blei,
       "Hierarchical Dirichlet Processes", Journal of the American Statistical
       Association 101, 2006.

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

    lineage_: list[Lineage]
    samples_: list[FranchiseSample]

    _parameter_constraints: dict = {
        **CONSTRAINTS,
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "split_merge": ["boolean"],
        "n_split_merge": [Interval(Integral, 1, None, closed="left")],
        "split_merge_sweeps": [Interval(Integral, 0, None, closed="left"), None],
        "burn_in": [Interval(Integral, 0, None, closed="left"), None],
        "thin": [Interval(Integral, 1, None, closed="left")],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "init": [HasMethods(["transform", "score"]), None],
    }

    def __init__(
        self,
        n_components=100,
        *,
        corpus_concentration=1.0,
        doc_concentration=1.0,
        topic_word_prior=0.05,
        learn_priors="concentrations",
        corpus_concentration_prior=(1.0, 1.0),
        doc_concentration_prior=(1.0, 1.0),
        split_merge=True,
        n_split_merge=5,
        split_merge_sweeps=None,
        max_iter=500,
        burn_in=None,
        thin=25,
        n_chains=1,
        init=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
        warm_start=False,
    ):
        self.n_components = n_components
        self.corpus_concentration = corpus_concentration
        self.doc_concentration = doc_concentration
        self.topic_word_prior = topic_word_prior
        self.learn_priors = learn_priors
        self.corpus_concentration_prior = corpus_concentration_prior
        self.doc_concentration_prior = doc_concentration_prior
        self.split_merge = split_merge
        self.n_split_merge = n_split_merge
        self.split_merge_sweeps = split_merge_sweeps
        self.max_iter = max_iter
        self.burn_in = burn_in
        self.thin = thin
        self.n_chains = n_chains
        self.init = init
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start

    # -- learning ---------------------------------------------------------------------

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None):
        """Sample topics of all documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents. Fractional counts are rounded to whole tokens,
            with a `DataConversionWarning`.
        y : None
            Ignored, but handed on to callbacks.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete sweep.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns, a
            document of more than 10^8 tokens or more than 2^31 - 1 in all, or a
            parameter is outside its range.
        """
        executor, burn_in = Executor(self.n_jobs), self._burn_in()
        self._priors()
        goes_on = self.warm_start and self.__sklearn_is_fitted__()

        def accept(counts: sp.csr_array) -> sp.csr_array:
            if self.init is not None and not goes_on:
                _topics_of(self.init, counts.shape[1])
            return whole_counts(counts, type(self).__name__)

        counts, _ = check_documents(
            self, X, reset=not goes_on, method="fit", accept=accept
        )
        counts = drop_empty(counts)
        tokens = Tokens.from_counts(counts)
        data, resumed = _fingerprint(tokens), None
        kept: list[FranchiseSample] = []
        if goes_on:
            history, entropy = self.history_, self._entropy
            self._check_warm_start()
            if data == self._data:
                resumed = self._chains
                burn_in = self._burnt if self.burn_in is None else burn_in
                kept = [s for s in self._kept if s.step > resumed[0].begin + burn_in]
        else:
            self.__dict__.pop("samples_", None)  # its vocabulary is gone
            history = {name: [] for name in COLUMNS}
            entropy = draw_entropy(self.random_state)
        chains = [
            self._make_chain(tokens, entropy, burn_in, start, number=number)
            for number, start in enumerate(
                resumed or self._starts(tokens, counts, entropy, goes_on)
            )
        ]
        before = chains[0].state.begin + burn_in  # the first sample comes after
        monitor = ChainMonitor(history, verbose=self.verbose)

        def attributes() -> dict[str, Any]:
            return {
                **self._fitted_attributes(chains, kept, history, before, entropy),
                "_chains": tuple(chain.state for chain in chains),
                "_data": data,
                "_burnt": burn_in,
                "n_iter_": monitor.n_sweeps,
            }

        def keep() -> None:
            for chain in chains:
                n_after = chain.state.step - before
                if n_after > 0 and n_after % self.thin == 0:
                    kept.append(chain.sample())

        tasks = FitTasks(self, X, y, attributes)
        try:
            with shown(self.verbose):
                run_chains(
                    chains,
                    self.max_iter,
                    executor,
                    monitor,
                    begin_sweep=tasks.begin_pass,
                    keep=keep,
                    end_sweep=tasks.end_pass,
                )
        finally:
            self._publish(attributes())
        tasks.end()
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Sample topics of a chunk of documents, given the counts of those before.

        The chunk's tokens are seated one by one, and swept over `max_iter` times
        without split-merge proposals. Then its counts are kept, its seating is not:
        `doc_concentration_` is learned from the chunk alone, everything else from all
        counts. The first call fixes the vocabulary; after `fit` the sample with the
        highest log joint goes on. A failed call leaves the estimator as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of the chunk; rows are documents.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`, or if `X` has another number of columns than before.
        """
        self._validate_params()  # scikit-learn does so before the first chunk alone
        executor, burn_in = Executor(self.n_jobs), self._burn_in()
        self._priors()
        goes_on = self.__sklearn_is_fitted__()
        before = self._best() if goes_on else None
        n_before = 0 if before is None else int(before.n_tokens.sum())
        counts, _ = check_documents(
            self,
            X,
            reset=not goes_on,
            method="partial_fit",
            accept=lambda counts: whole_counts(counts, type(self).__name__, n_before),
        )
        tokens = Tokens.from_counts(drop_empty(counts))
        if before is not None:
            start, number = self._going_on(), before.chain
            history, entropy = self.history_, self._entropy
        else:
            start, number = Start(self._concentrations(), None), 0
            history = {name: [] for name in COLUMNS}
            entropy = draw_entropy(self.random_state)
        monitor = ChainMonitor(history)
        chain: FranchiseChain | None = None
        try:
            chain = self._make_chain(
                tokens,
                entropy,
                burn_in,
                start,
                number=number,
                n_proposals=0,
                before=before,
            )
            run_chains(
                [chain],
                self.max_iter if len(tokens) else 0,
                executor,
                monitor,
                begin_sweep=lambda: None,
                keep=lambda: None,
                end_sweep=lambda: False,
            )
        finally:
            if chain is not None and (monitor.n_sweeps > 0 or len(tokens) == 0):
                self._publish(
                    {
                        **self._fitted_attributes(
                            [chain], [], history, np.inf, entropy
                        ),
                        "_chains": None,
                        "_data": None,
                        "n_iter_": (self.n_iter_ if goes_on else 0) + 1,
                    }
                )
            elif not goes_on:
                self.__dict__.pop("n_features_in_", None)
                self.__dict__.pop("feature_names_in_", None)
        return self

    def _priors(self) -> Priors:
        return Priors(
            learn_concentrations=self.learn_priors is not False,
            learn_topic_prior=self.learn_priors is True,
            corpus=check_gamma_prior(
                "corpus_concentration_prior", self.corpus_concentration_prior
            ),
            doc=check_gamma_prior(
                "doc_concentration_prior", self.doc_concentration_prior
            ),
        )

    def _burn_in(self) -> int:
        if self.burn_in is None:
            return self.max_iter // 2
        if self.burn_in >= self.max_iter:
            raise ValueError(
                f"burn_in={self.burn_in} must be less than max_iter={self.max_iter}."
            )
        return self.burn_in

    def _check_warm_start(self) -> None:
        if self._chains is not None and len(self._chains) != self.n_chains:
            raise ValueError(
                f"n_chains={self.n_chains} with warm_start=True, but the fit began "
                f"with {len(self._chains)}."
            )

    def _concentrations(self) -> Concentrations:
        return Concentrations(
            corpus=float(self.corpus_concentration),
            doc=float(self.doc_concentration),
            topic_word_prior=float(self.topic_word_prior),
        )

    def _make_chain(
        self,
        tokens: Tokens,
        entropy: int,
        burn_in: int,
        start: Start | ChainState,
        **more: Any,
    ) -> FranchiseChain:
        sweeps = self.split_merge_sweeps
        settings: dict[str, Any] = {
            "n_proposals": self.n_split_merge if self.split_merge else 0,
            "proposal_sweeps": burn_in if sweeps is None else sweeps,
        }
        return FranchiseChain(
            tokens, self._priors(), entropy, start, **(settings | more)
        )

    def _starts(
        self, tokens: Tokens, counts: sp.csr_array, entropy: int, goes_on: bool
    ) -> Iterator[Start]:
        """Yield where each chain starts on new documents."""
        topics: FixedTopics | FranchiseSample | None = None
        start = Start(self._concentrations(), None)
        if goes_on:
            topics, start = self._best(), self._going_on()
        elif self.init is not None:
            topics = _topics_of(self.init, counts.shape[1])
        if topics is None and self.n_components is None:
            yield from [start] * self.n_chains
            return
        for number in range(self.n_chains):
            rng = stream(entropy, Purpose.START, number)
            if topics is None:
                dish = rng.integers(0, self.n_components, len(tokens), dtype=np.int32)
            else:
                dish = _draw_topics(tokens, counts, topics, rng, self.n_jobs)
            tables, served = Tables.one_per_dish(tokens, dish)
            ids = self.component_ids_[served] if goes_on else None
            yield replace(start, tables=tables, ids=ids)

    def _going_on(self) -> Start:
        """What goes on where no chain can."""
        best = self._best()
        return Start(
            Concentrations(
                best.corpus_concentration, best.doc_concentration, best.topic_word_prior
            ),
            None,
            lineage=self.lineage_,
            next_id=self._next_id,
            step=max(self.history_["step"], default=0),
        )

    def _best(self) -> FranchiseSample:
        return _best_of(self.samples_)

    def _fitted_attributes(self, chains, kept, history, before, entropy):
        samples = list(kept) or [chain.sample() for chain in chains]
        best = _best_of(samples)
        state = next(c.state for c in chains if c.state.number == best.chain)
        return {
            "samples_": samples,
            "_kept": list(kept),
            "_entropy": entropy,
            "_next_id": state.next_id,
            "lineage_": [entry for entry in state.lineage if entry.step <= best.step],
            "history_": history,
            "n_components_posterior_": _shares(history, before, len(chains)),
            **_attributes_of(best),
        }

    def _publish(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    # -- editing ----------------------------------------------------------------------

    def _merge(self, target: int, sources: list[int]) -> None:
        best = self._best()
        ids = best.component_ids.tolist()
        group = [ids.index(name) for name in (target, *sources)]
        onto = np.arange(len(ids))
        onto[group] = group[0]
        self._keep_topics(best, onto, [name for name in ids if name not in sources])
        step = max(self.history_["step"], default=0)
        for source in sources:
            self.lineage_ = [
                *self.lineage_,
                Lineage(step, "merge", (target, source), (target,)),
            ]

    def _drop(self, ids: list[int]) -> None:
        best = self._best()
        onto = np.arange(len(best.component_ids))
        onto[np.isin(best.component_ids, ids)] = -1
        left = [name for name in best.component_ids.tolist() if name not in ids]
        self._keep_topics(best, onto, left)
        step = max(self.history_["step"], default=0)
        log = [Lineage(step, "prune", (name,), ()) for name in ids]
        self.lineage_ = [*self.lineage_, *log]

    def _keep_topics(
        self, sample: FranchiseSample, onto: NDArray[np.intp], ids: list[int]
    ) -> None:
        """Add up topics, or leave them out (-1); no other sample stays."""
        rows = np.flatnonzero(onto >= 0)
        places = np.flatnonzero(np.isin(sample.component_ids, ids))
        at = np.searchsorted(places, onto[rows])
        add = sp.csr_array(
            (np.ones(len(rows), np.int32), (at, rows)), (len(places), len(onto))
        )
        tables = (add @ sample.table_counts).astype(np.int32)
        order = np.argsort(-tables, kind="stable")
        edited = replace(
            sample,
            topic_word_counts=sp.csr_array(add @ sample.topic_word_counts)[order],
            table_counts=tables[order],
            component_ids=sample.component_ids[places][order],
        )
        self._publish(
            {"samples_": [edited], "_kept": [], "_chains": None, "_data": None}
        )

    def _publish_edits(self) -> None:
        best = self._best()
        n_components = len(best.component_ids)
        for entry in reversed(range(len(self.history_["chain"]))):
            if self.history_["chain"][entry] == best.chain:
                self.history_["n_components"][entry] = n_components
                break
        self._publish(
            {"n_components_posterior_": {n_components: 1.0}, **_attributes_of(best)}
        )

    # -- evaluation: reads samples, writes nothing, draws nothing ----------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "samples_")

    @property
    def components_(self) -> np.ndarray:
        """Counts plus topic prior of the best sample, (n_components_, V)."""
        check_is_fitted(self)
        return self._best().topic_word_counts.toarray() + self.topic_word_prior_

    @property
    def n_active_components_(self) -> int:
        """Topics with at least max(1, 1e-4 of all) tokens."""
        check_is_fitted(self)
        tokens = self._best().n_tokens
        return int((tokens >= max(1.0, 1e-4 * tokens.sum())).sum())

    @property
    def log_joint_(self) -> float:
        """Log joint after the last sweep, nats per token."""
        check_is_fitted(self)
        trace = self.history_["log_joint"]
        return trace[-1] if trace else self._best().log_joint

    def transform(self, X):
        """Infer the topic proportions of documents.

        Under the sample with the highest log joint, by the deterministic fold-in of
        :func:`skbnp.metrics.held_out_log_likelihood`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts; rows are documents.

        Returns
        -------
        doc_topic_distr : ndarray of shape (n_samples, n_components_)
            Expected proportions; rows sum to one, the mass of topics not represented
            left out. A document without tokens gets the corpus-level weights. float32
            if `X` is, otherwise float64.
        """
        check_is_fitted(self)
        counts, dtype = check_documents(self, X, reset=False, method="transform")
        distr = expected_topics(self._best(), counts, self.n_jobs)
        distr /= distr.sum(axis=1, keepdims=True)
        return distr.astype(dtype, copy=False)


def _best_of(samples: list[FranchiseSample]) -> FranchiseSample:
    return max(samples, key=lambda sample: sample.log_joint)


def _attributes_of(best: FranchiseSample) -> dict[str, Any]:
    return {
        "n_components_": len(best.component_ids),
        "component_ids_": best.component_ids.copy(),
        "topic_weights_": best.topic_weights,
        "doc_concentration_": best.doc_concentration,
        "corpus_concentration_": best.corpus_concentration,
        "topic_word_prior_": best.topic_word_prior,
    }


def _shares(history: dict[str, list], before: float, n_chains: int) -> dict[int, float]:
    """Share of sweeps after one, or of the last ones, by number of topics."""
    sweeps = zip(history["n_components"], history["step"], strict=True)
    found = [k for k, step in sweeps if step > before]
    found = found or history["n_components"][-n_chains:] or [1]
    return {k: n / len(found) for k, n in sorted(Counter(found).items())}


def _fingerprint(tokens: Tokens) -> bytes:
    """Name of a corpus."""
    content = hashlib.blake2b(tokens.words.tobytes(), digest_size=16)
    content.update(tokens.begin.tobytes())
    content.update(tokens.n_words.to_bytes(8, "little"))
    return content.digest()


def _topics_of(model: Any, n_features: int) -> FixedTopics:
    """Topics of a fitted HDP."""
    check_is_fitted(model)
    names = ("topic_word_distr_", "topic_weights_", "doc_concentration_")
    missing = [name for name in names if not hasattr(model, name)]
    if missing:
        raise ValueError(f"init must be a fitted HDP; it has no {missing[0]}.")
    distr, weights = model.topic_word_distr_, model.topic_weights_
    if distr.shape[1] != n_features:
        raise ValueError(f"X has {n_features} features, but init has {distr.shape[1]}.")
    rest = max(1.0 - weights.sum(), 0.0)
    return FixedTopics(distr, model.doc_concentration_ * np.append(weights, rest))


def _draw_topics(
    tokens: Tokens,
    counts: sp.csr_array,
    topics: FixedTopics | FranchiseSample,
    rng: np.random.Generator,
    n_jobs: int | None,
) -> NDArray[np.int32]:
    """Draw a topic for each token given its document and topics held fixed."""
    dish = np.empty(len(tokens), dtype=np.int32)
    n_topics = len(topics.doc_prior) - 1
    per_part = max(PRODUCTS // n_topics, 1)
    docs = max(per_part * counts.shape[0] // max(len(tokens), 1), 1)
    word_topic = topics.word_topic()
    for first in range(0, counts.shape[0], docs):
        last = min(first + docs, counts.shape[0])
        theta = fold_in(word_topic, topics.doc_prior[:-1], counts[first:last], n_jobs)
        theta += topics.doc_prior[:-1]
        for begin in range(tokens.begin[first], tokens.begin[last], per_part):
            part = slice(begin, min(begin + per_part, tokens.begin[last]))
            doc = np.searchsorted(
                tokens.begin, np.arange(part.start, part.stop), side="right"
            )
            masses = theta[doc - 1 - first] * word_topic[tokens.words[part]]
            np.cumsum(masses, axis=1, out=masses)
            x = rng.random(len(masses)) * masses[:, -1]
            drawn = (masses <= x[:, None]).sum(axis=1)
            dish[part] = np.minimum(drawn, n_topics - 1)
    return dish
