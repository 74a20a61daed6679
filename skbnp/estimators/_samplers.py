"""Base of estimators by Gibbs sampling: chains, kept samples, warm starts, chunks."""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self, TypedDict

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from skbnp.estimators import _base, _saved
from skbnp.estimators._checkpoints import FitRecord, FitSession, save_chunk
from skbnp.inference import chains as sampling
from skbnp.inference.executor import Executor
from skbnp.inference.monitor import SILENT, Account, shown, thin
from skbnp.rows.batch import Tokens
from skbnp.utils import validation as valid
from skbnp.utils.archive import digest_of, rows_digest
from skbnp.utils.arrays import with_columns
from skbnp.utils.fitted import has_mixed, mixing
from skbnp.utils.labels import Label
from skbnp.utils.random import draw_seed_entropy
from skbnp.utils.ranges import MOST_IDS, Entropy, Id, Steps
from skbnp.utils.typing import Ints, MatrixLike, RandomStateLike
from skbnp.utils.warnings import warn_caller

#: Columns of the history by which chains are compared, and what they hold.
COMPARED = {"n_components": "number of topics", "log_joint": "log joint"}
#: R-hat above which a fit warns.
MOST_R_HAT = 1.1


class SweepsAccount(TypedDict):
    """What a file has of a fit that has not ended, beside its chains."""

    n_sweeps: int
    goes_on: bool


@dataclass(kw_only=True, eq=False, repr=False)
class SamplerParameters:
    """Parameters of all samplers."""

    max_iter: int = 500
    burn_in: int | None = None
    thin: int = 25
    n_chains: int = 1
    sparse_output: bool = False
    n_jobs: int | None = None
    random_state: RandomStateLike = None
    verbose: int = 0
    warm_start: bool = False


class Sampler(_base.ComponentModel):
    """Base of samplers from data of any kind, with `SamplerParameters`.

    Subclasses define what is read, the chains and their starts, and have their own
    `fit` and `partial_fit`, as variational estimators.
    """

    # Fitted
    samples_: list[Any]
    n_components_posterior_: dict[int, float]
    _seed_entropy: Entropy
    _next_id: Id  # of components
    _chains: tuple[sampling.ChainState, ...] | None  # None: no chain can go on
    _kept: list[Any]
    _data: str | None  # name of the corpus that the chains are over
    _burnt: Steps = 0  # their burn-in

    #: Columns of the history.
    _columns: tuple[str, ...]

    def _check_consistency(self, goes_on: bool) -> None:
        """Raise for parameters that contradict each other."""

    @abstractmethod
    def _start(self, goes_on: bool) -> sampling.ChainStart | sampling.ChainState | None:
        """Return the start of a chain on new data; None if `_starts` is needed."""

    @abstractmethod
    def _starts(
        self, data, seed_entropy: int, goes_on: bool
    ) -> Iterable[sampling.ChainStart]:
        """Yield the start of each chain on new data."""

    @abstractmethod
    def _make_chain(
        self,
        data,
        seed_entropy: int,
        start: sampling.ChainStart | sampling.ChainState | None,
        number: int,
        *,
        burn_in: int | None = None,
        before: Any = None,
    ) -> Any:
        """Return a chain; without `burn_in`, for a chunk after others."""

    @abstractmethod
    def _attributes_of(self, best: Any) -> dict[str, Any]:
        """Return the fitted attributes of the sample with the highest log joint."""

    def _check_sample(self, sample: Any, sizes: dict[str, int]) -> None:
        """Raise if a saved sample, of arrays of these sizes, is none of this model."""

    def _check_chain(self, state: Any) -> None:
        """Raise if priors of a saved chain are out of range.

        The seats are checked with their documents.
        """

    def _seen_before(self) -> int:
        """Rows of earlier chunks."""
        return 0

    def _account(self, n_before: int, data, *, adds: bool) -> dict[str, Any]:
        """Return the fitted attributes of the numbers of rows seen."""
        return {}

    # -- learning ---------------------------------------------------------------------

    def _fit(self, X, y, **more):
        """Sample given all data; `more` are further arguments of `_read`."""
        executor, burn_in = Executor(self.n_jobs), self._burn_in()
        goes_on = self.warm_start and self.__sklearn_is_fitted__()
        self._check_consistency(goes_on)
        data = self._read(X, reset=not goes_on, method="fit", **more)
        record = FitRecord(self, data, goes_on, partial(self._restored, data))
        before, account = record.estimator, record.account
        if not goes_on or self.n_chains > 1:  # another chain may be shown
            self._forget("topic_names_")
        digest, kept, n_made = data.digest, [], 0
        n_before = self._seen_before() if goes_on else 0
        resumed: tuple[sampling.ChainState, ...] = ()
        if account is not None:
            history, seed_entropy = before.history_, before._seed_entropy
            resumed, kept, burn_in = before._chains, before._kept, before._burnt
            n_made, goes_on = before.n_iter_, account["goes_on"]
            n_before = before._seen_before()
            self._take_names(before)
        elif goes_on:
            history, seed_entropy = self.history_, self._seed_entropy
            if self._chains is not None and len(self._chains) != self.n_chains:
                raise ValueError(
                    f"n_chains={self.n_chains} with warm_start=True, but the fit began "
                    f"with {len(self._chains)}."
                )
            if self._chains is not None and digest == self._data:
                resumed = self._chains
                burn_in = self._burnt if self.burn_in is None else burn_in
                kept = self._still_kept(resumed[0].begin + burn_in)
        else:
            self._forget("samples_")  # its vocabulary is gone
            history = {name: [] for name in self._columns}
            seed_entropy = draw_seed_entropy(self.random_state)
        monitor = sampling.ChainMonitor(history, verbose=self.verbose)
        monitor.n_sweeps = n_made
        chains: list[Any] = record.restored or []

        def attributes() -> dict[str, Any]:
            return {
                "_chains": tuple(chain.saved_state(executor.run) for chain in chains),
                **self._fitted_attributes(
                    chains, kept, history, chains[0].state.begin + burn_in, seed_entropy
                ),
                "_data": digest,
                "_burnt": burn_in,
                "n_iter_": monitor.n_sweeps,
                **self._account(n_before, data, adds=False),
            }

        def keep() -> None:
            """Keep samples of the chains if they are due."""
            for chain in chains:
                n_after = chain.state.step - chain.state.begin - burn_in
                if n_after > 0 and n_after % self.thin == 0:
                    kept.append(chain.sample(executor.run))

        n_sweeps = self._n_sweeps(data, goes_on=bool(resumed))
        if account is not None:
            n_sweeps = account["n_sweeps"]

        def end_sweep() -> bool:
            """End the pass of callbacks, and write the fit; return whether to stop."""
            has_ended = session.end()
            if not has_ended:
                account = {"n_sweeps": n_sweeps, "goes_on": goes_on}
                session.save(monitor.n_sweeps, lambda: account)
            return has_ended

        n_tasks = n_sweeps + int(not resumed)
        session = FitSession(self, X, y, attributes, n_tasks, record=record)
        with shown(self.verbose):
            monitor.report(f"samples {self._describe(data)}")
            given = data, seed_entropy, burn_in, monitor
            if resumed and not chains:
                chains.extend(self._chains_from(resumed, *given))
            elif not resumed:
                with session.start():
                    starts = self._starts(data, seed_entropy, goes_on)
                    chains.extend(self._chains_from(starts, *given))
            try:
                sampling.run_chains(
                    chains,
                    n_sweeps - n_made,
                    executor,
                    monitor,
                    begin_sweep=session.begin_pass,
                    keep=keep,
                    end_sweep=end_sweep,
                )
            finally:
                with executor:
                    fitted = attributes()
                if not goes_on:
                    fitted = self._numbered(fitted)
                self._publish(fitted)
                session.attributes = lambda: fitted
        record.end()
        self._warn_if_chains_disagree()
        self._warn_of_components()
        session.end()
        return self

    def _restored(self, data, account: Account, before: Any) -> list[Any]:
        """Return the chains of an unfinished fit that a file has."""
        _saved.check_type("account", account, SweepsAccount)
        most = max(
            self._n_sweeps(data, goes_on=is_resumed) for is_resumed in (False, True)
        )
        _saved.check_number("n_sweeps", account["n_sweeps"], least=0, most=most)
        self._take_names(before)
        given = data, before._seed_entropy, before._burnt
        return list(self._chains_from(before._chains, *given))

    def _chains_from(
        self, starts: Iterable[Any], data, seed_entropy, burn_in, monitor=SILENT
    ) -> Iterator[Any]:
        """Yield a chain from each start, made when it is asked for."""
        for number, start in enumerate(starts):
            monitor.remind(f"starts chain {number}")
            yield self._make_chain(data, seed_entropy, start, number, burn_in=burn_in)

    def _partial_fit(self, X, y, **more):
        """Sample a chunk, given the counts of earlier ones."""
        self._validate_params()  # scikit-learn does so before the first chunk alone
        executor, _ = Executor(self.n_jobs), self._burn_in()
        goes_on = self.__sklearn_is_fitted__()
        self._check_consistency(goes_on)
        before = self._best() if goes_on else None
        data = self._read(X, reset=not goes_on, method="partial_fit", **more)
        features: dict[str, Any] = {}
        vocabulary = self._extended(X)
        if vocabulary is not None and vocabulary.size > self.n_features_in_:
            before, features = self._widened(before, data, vocabulary)
        if before is not None:
            number = before.chain
            history = self.history_
            thin(history)
            seed_entropy = self._seed_entropy
        else:
            number, history = 0, {name: [] for name in self._columns}
            seed_entropy = draw_seed_entropy(self.random_state)
        monitor = sampling.ChainMonitor(history)
        n_before = self._seen_before() if goes_on else 0
        n_iter = (self.n_iter_ if goes_on else 0) + 1
        n_sweeps = self._n_sweeps(data, goes_on=False) if len(data) else 0
        chain: sampling.GibbsChain | None = None

        def attributes() -> dict[str, Any]:
            return {
                **features,
                **self._fitted_attributes([chain], [], history, np.inf, seed_entropy),
                "_chains": None,
                "_data": None,
                "n_iter_": n_iter,
                **self._account(n_before, data, adds=True),
            }

        try:
            session = FitSession(self, X, y, attributes, n_sweeps, "partial_fit")
            start = self._start(goes_on)
            chain = self._make_chain(data, seed_entropy, start, number, before=before)
            sampling.run_chains(
                [chain],
                n_sweeps,
                executor,
                monitor,
                begin_sweep=session.begin_pass,
                keep=lambda: None,
                end_sweep=session.end,
            )
        finally:
            if chain is not None and (monitor.n_sweeps > 0 or len(data) == 0):
                self._publish(attributes())
            elif not goes_on:
                self._forget("n_features_in_", "feature_names_in_")
        save_chunk(self, n_iter)
        session.end()
        return self

    def _publish(self, attributes: dict[str, Any]) -> None:
        """Set fitted attributes, in place."""
        self.__dict__.update(attributes)

    def _warn_if_chains_disagree(self) -> None:
        """Warn if the last sweeps are not draws from one posterior, by R-hat."""
        r_hats = {}
        for name, what in COMPARED.items():
            traces = has_mixed(self, name)
            r_hat = 0.0 if traces is None else mixing(traces)[0]
            if r_hat > MOST_R_HAT:  # not of nan, where nothing ever changes
                r_hats[what] = r_hat
        if not r_hats:
            return
        who = "halves of the chain" if self.n_chains == 1 else "chains"
        result = ", ".join(f"{r_hats[name]:.2f} of the {name}" for name in r_hats)
        warn_caller(
            f"The {who} disagree after burn-in: R-hat is {result}, and should be near "
            "1. Increase max_iter.",
            ConvergenceWarning,
        )

    def _n_sweeps(self, data, *, goes_on: bool) -> int:
        """Number of sweeps of a fit, fewer for chains that continue."""
        return self.max_iter

    def _still_kept(self, before: int) -> list[Any]:
        """Samples that a continued fit keeps, after sweep `before`."""
        return [sample for sample in self._kept if sample.step > before]

    def _burn_in(self) -> int:
        """Return the number of sweeps before the first kept sample."""
        if self.burn_in is None:
            return self.max_iter // 2
        if self.burn_in >= self.max_iter:
            raise ValueError(
                f"burn_in={self.burn_in} must be less than max_iter={self.max_iter}."
            )
        return self.burn_in

    def _fitted_attributes(self, chains, kept, history, before, seed_entropy):
        """Return the fitted attributes of chains and kept samples."""
        samples = self._shown(list(kept), chains)
        samples = samples or [chain.sample() for chain in chains]
        best = best_of(samples)
        state = next(c.state for c in chains if c.state.number == best.chain)
        return {
            "samples_": samples,
            "_kept": list(kept),
            "_seed_entropy": seed_entropy,
            "_next_id": state.next_id,
            "lineage_": [entry for entry in state.lineage if entry.step <= best.step],
            "history_": history,
            "n_components_posterior_": _shares(history, before, len(chains)),
            **self._attributes_of(best),
        }

    def _numbered(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return fitted attributes with final ids of topics, after a new fit."""
        return attributes

    def _shown(self, kept: list[Any], chains: list[Any]) -> list[Any]:
        """Kept samples that are comparable with the present state."""
        return kept

    def _check_saved(self) -> None:
        _saved.check_history(self.history_, self._columns)
        for sample in (*self.samples_, *self._kept):
            sizes = {"n_features": self.n_features_in_}
            _saved.check_sizes(sample, sizes)
            self._check_sample(sample, sizes)
        for state in self._saved_chains():
            _saved.check_ids("ids", state.ids, MOST_IDS)
            self._check_chain(state)

    def _saved_chains(self) -> tuple[Any, ...]:
        """Return the saved states of chains that can continue."""
        return self._chains or ()

    # -- what samples tell ------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "samples_")

    def _best(self) -> Any:
        valid.check_is_fitted(self)
        return best_of(self.samples_)

    def _latest_step(self) -> int:
        return max(self.history_["step"], default=0)

    @property
    def log_joint_(self) -> float:
        """Log joint after the last sweep, nats per token."""
        valid.check_is_fitted(self)
        trace = self.history_["log_joint"]
        return trace[-1] if trace else self._best().log_joint


@dataclass(frozen=True, slots=True)
class TokenCorpus:
    """Non-empty documents, as counts and as lists of tokens."""

    counts: sp.csr_array
    tokens: Tokens
    rows: Ints  # of `X`
    #: Factor and labels of groups of documents, and limits of groups, see `Seating`.
    groups: tuple[tuple[str, ...], tuple[tuple[Label, ...], ...]] | None = None
    group_limits: Ints | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def digest(self) -> str:
        """Digest of the corpus."""
        words, begin = map(rows_digest, (self.tokens.words, self.tokens.begin))
        parts = [words, begin, str(self.tokens.n_words)]
        if self.group_limits is not None:
            parts.append(rows_digest(self.group_limits))
        return digest_of(parts)


class TopicSampler(_base.TopicModelMixin, Sampler):
    """Base of samplers of topic models of whole counts."""

    _rounds_counts = True
    _n_seen: Steps  # documents of all calls

    @abstractmethod
    def _check_init(self, X: MatrixLike, n_features: int) -> None:
        """Raise if the model to start from does not fit."""

    def _accept(self, counts, X, *, reset, method):
        """Round counts, and check their number."""
        n_before = 0
        if method != "fit" and not reset:
            n_before = int(self._best().n_tokens.sum())
        elif reset and method == "fit":
            self._check_init(X, counts.shape[1])
        return valid.whole_counts(counts, type(self).__name__, n_before)

    def _read(self, X, *, reset: bool, method: str, sample_weight=None) -> TokenCorpus:
        """Check counts, round them to whole tokens; return a token corpus."""
        counts = self._read_counts(X, reset, method, sample_weight)
        rows = np.flatnonzero(np.diff(counts.indptr))
        counts = _base.drop_empty(counts)
        if sample_weight is not None:
            rows = valid.check_copies(sample_weight, X)[rows]
        return TokenCorpus(counts, Tokens.from_counts(counts), rows)

    def _seen_before(self) -> int:
        return self._n_seen

    def _account(self, n_before: int, data, *, adds: bool) -> dict[str, Any]:
        n_docs = data.counts.shape[0]
        return {"_n_seen": n_before + n_docs if adds else max(n_before, n_docs)}

    @property
    def n_samples_seen_(self) -> int:
        """Documents learned from; in a stream, as often as they came."""
        valid.check_is_fitted(self)
        return self._n_seen

    def _widened(
        self, sample: Any, data: TokenCorpus, vocabulary: valid.Vocabulary
    ) -> tuple[Any, dict[str, Any]]:
        counts = with_columns(sample.topic_word_counts, data.counts.shape[1])
        return replace(sample, topic_word_counts=counts), _base.features_of(vocabulary)

    def _describe(self, data) -> str:
        return f"topics of {data.counts.shape[0]} documents, {len(data)} tokens"

    @valid.fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Sample topics of all documents.

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
            are shares of one, of which rounding leaves nothing, or a parameter is
            outside its range.

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
        return self._fit(X, y, sample_weight=sample_weight)

    @valid.fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Sample topics of a chunk of documents, given the counts of those before.

        The chunk is seated sequentially, each part given those before it, and swept
        over `max_iter` times by Gibbs steps alone. Then its counts are kept, its
        seating is not: hyperparameters of single documents are learned from the chunk,
        all others from all counts. The first call fixes the vocabulary of matrices.
        Columns of data frames go by their names: new ones extend the topics, absent
        ones are zeros. After `fit` the sample with the highest log joint goes on. A
        failed call leaves the estimator as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of the chunk; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            step as a whole.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            As `fit`, or if `X` has, without names, another number of columns than
            before, or none of the names.
        """
        return self._partial_fit(X, y, sample_weight=sample_weight)

    @property
    def n_active_components_(self) -> int:
        """Topics with at least max(1, 1e-4 of all) tokens."""
        return int(_base.are_in_use(self._best().n_tokens).sum())


def best_of(samples: list[Any]) -> Any:
    return max(samples, key=lambda sample: sample.log_joint)


def _shares(history: dict[str, list], before: float, n_chains: int) -> dict[int, float]:
    """Share of sweeps after sweep `before` by number of topics.

    Of the last sweeps, if there are none after it.
    """
    sweeps = zip(history["n_components"], history["step"], strict=True)
    result = [k for k, step in sweeps if step > before]
    result = result or history["n_components"][-n_chains:] or [1]
    return {k: n / len(result) for k, n in sorted(Counter(result).items())}
