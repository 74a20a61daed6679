"""Base of variational estimators and topic models: `fit`, `partial_fit`, evaluation."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from skbnp.components.word_topics import SeenWords, WordTopics
from skbnp.estimators import _base, _checkpoints, _known_topics, _saved
from skbnp.inference import engine, protocols
from skbnp.inference import monitor as monitors
from skbnp.inference.executor import Executor, commit
from skbnp.inference.posterior import Lineage, Posterior, per_token
from skbnp.models.hdp import fold_in
from skbnp.models.hdp.births import blur
from skbnp.models.hdp.local import DocumentStep, expected_counts
from skbnp.rows.batch import Batch
from skbnp.utils import validation as valid
from skbnp.utils.arrays import names_by_weight, row_parts
from skbnp.utils.plain import from_plain
from skbnp.utils.random import Purpose, draw_seed_entropy, gamma_noise, stream
from skbnp.utils.typing import MatrixLike, RandomStateLike
from skbnp.utils.warnings import warn_caller

#: Documents of the warm-up of a stream of unknown length.
STREAM_WARM_UP = 10_000
#: Share of documents in topics that start beside known ones, the rest is the corpus. As
#: the documents themselves they divide the words of known topics among them: seeded
#: topics of planted corpora (6 of 6, 5 of 15, 2 of 6) end at .00 to .03 in
#: `StickBreakingHDP`; from shares of .05 and .1 as planted, at .06 to .19.
SHARE_BESIDE_KNOWN = 0.05
#: "auto" minibatches: documents, and tokens, at least. Fewer tokens say too little.
LEAST_DOCS, LEAST_TOKENS = 128, 4000
#: ...and updates in a pass, unless minibatches have as many documents: more updates
#: take longer, and 40 to 160 in a pass over 8,000 to 135,000 documents score as well or
#: better at the same time.
MOST_UPDATES, MOST_DOCS = 80, 4096


@dataclass(kw_only=True, eq=False, repr=False)
class PassParameters:
    """Parameters of estimators that learn in passes over minibatches."""

    learning_offset: float = 1.0
    learning_decay: float = 0.6
    total_samples: float | None = None
    max_iter: int = 100
    tol: float = 1e-4
    sparse_output: bool = False
    n_jobs: int | None = None
    random_state: RandomStateLike = None
    verbose: int = 0
    warm_start: bool = False


@dataclass(kw_only=True, eq=False, repr=False)
class DocumentParameters(PassParameters):
    """Parameters of those that infer the topics of each document by iteration."""

    max_doc_update_iter: int = 100
    mean_change_tol: float = 1e-3


class VariationalEstimator(_base.ComponentModel):
    """Base of estimators that learn a variational posterior from rows of any kind.

    Subclasses define the rows that are read, the globals, their start and the learner.
    They have their own `fit` and `partial_fit`, for documentation and further
    arguments, which call `_fit` and `_partial_fit`.
    """

    # Fitted
    converged_: bool
    _posterior: Any

    @abstractmethod
    def _make_model(self) -> Any:
        """Return the model with present parameters."""

    def _component_limit(self) -> float:
        """Largest number of components; raise if no fit can begin with it."""
        limit = getattr(self, "max_components", None)
        return np.inf if limit is None else limit

    @abstractmethod
    def _start(self, model, rows, seed_entropy, n_rows) -> Posterior:
        """Return the posterior before the first update, for `n_rows` rows in all."""

    def _start_stream(self, model, rows, seed_entropy, n_rows) -> Posterior:
        """Return the posterior of a stream whose first rows are `rows`."""
        return self._start(model, rows, seed_entropy, n_rows)

    def _resumed(self, model, *, in_fit: bool) -> Any:
        """Return the posterior of the last call with present parameters."""
        limit = self._component_limit()
        return replace(self._posterior, model=model, max_components=limit)

    def _can_continue(self) -> bool:
        """Whether there is a learned posterior to continue from."""
        return True

    @property
    def _n_stream_docs(self) -> float | None:
        """Documents that a stream stands for; None: those so far."""
        return self.total_samples

    def _needs_start(self, posterior) -> bool:
        """Whether `_find_start` is to be called."""
        return False

    def _find_start(self, posterior, rows, executor, monitor) -> None:
        """Set the globals in place to a start that takes time to find.

        An interrupt leaves the best so far.
        """

    def _around(self, posterior, rows, executor) -> tuple[Any, ...]:
        """Return what a learner has of rows and threads, which files do not contain.

        It is a function of rows and of a posterior at any moment of the fit.
        """
        return rows, self._local_step(executor)

    @abstractmethod
    def _make_learner(self, posterior, around, goes_on) -> Any:
        """Return the learner of the passes of `fit`; `around` is that of `_around`."""

    def _n_further_passes(self, rows) -> int:
        """Largest number of passes of `fit` beyond `max_iter`."""
        return 0

    def _n_chunk_passes(self, rows) -> int:
        """Largest number of passes of `partial_fit`."""
        return 1

    def _learn_all(self, posterior, session: _checkpoints.FitSession) -> bool:
        """Make the passes of `fit`; return whether the bound has converged."""
        rows, monitor = session.rows, session.monitor
        account = session.record.account
        if account is None:
            around = self._around(posterior, rows, session.executor)
            learner = self._make_learner(posterior, around, session.goes_on)
        elif account["has_ended"]:
            return account["has_converged"]
        else:
            learner, around = session.record.restored
            monitor.report(f"goes on after pass {monitor.n_passes}")
        return session.learn(learner, around, self.max_iter - monitor.n_passes)

    def _learn_anew(self, rows, seed_entropy, executor, monitor) -> Any:
        """Return the posterior of a fit of `rows` by itself; publishes nothing."""
        posterior = self._start(self._make_model(), rows, seed_entropy, rows.shape[0])
        if self._needs_start(posterior):
            self._find_start(posterior, rows, executor, monitor)
        around = self._around(posterior, rows, executor)
        trace = monitors.discarding(posterior.model.criterion)
        trace.tol = self.tol
        learner = self._make_learner(posterior, around, False)
        engine.learn(learner, trace, n_passes=self.max_iter)
        return posterior

    def _restored(
        self, rows, executor: Executor, account: monitors.Account, before: Any
    ) -> Any:
        """Return the learner that a file has, and what it has of rows and threads."""
        _saved.check_type("account", account, _checkpoints.FitAccount)
        if account["has_ended"]:
            return None
        posterior = before._posterior
        around = self._around(posterior, rows, executor)
        learner = from_plain(account["learner"], (posterior, *around))
        _saved.check_type("learner", learner, engine.PassLearner)
        learner.check(posterior)
        return learner, around

    def _learn_stream(self, posterior, session: _checkpoints.FitSession) -> None:
        """Make the passes of `partial_fit`, here one by `_learn_chunk`."""
        session.begin_pass()
        given = session.rows, session.executor, session.monitor
        self._learn_chunk(posterior, *given)
        session.end()

    def _learn_chunk(self, posterior, rows, executor, monitor) -> None:
        """Make an online update for each minibatch of a chunk, in row order.

        Nothing where a stream has other passes.
        """

    def _fitted_attributes(self, posterior, history, n_iter, converged=False) -> dict:
        """Return the fitted attributes of a posterior; here those of all models."""
        return {
            "_posterior": posterior,
            "n_components_": posterior.state.n_components,
            "component_ids_": posterior.ids.copy(),
            "lineage_": list(posterior.lineage),
            "history_": history,
            "n_iter_": n_iter,
            "converged_": converged,
        }

    # -- learning ---------------------------------------------------------------------

    def _fit(self, X, y, further: Callable[[], None] | None = None, **given):
        """Learn from all rows; `given` are further arguments of `_read`.

        `further` learns what follows once the attributes are fitted.
        """
        model, executor = self._make_model(), Executor(self.n_jobs)
        self._component_limit()
        goes_on = self.warm_start and self.__sklearn_is_fitted__()
        rows = self._read(X, reset=not goes_on, method="fit", **given)
        seed_entropy = draw_seed_entropy(self.random_state)
        goes_on = goes_on and self._can_continue()
        restore = partial(self._restored, rows, executor)
        record = _checkpoints.FitRecord(self, rows, goes_on, restore)
        before, account = record.estimator, record.account
        if account is not None:
            posterior, history = before._posterior, before.history_
            self._take_names(before)
            goes_on = account["goes_on"]
        elif goes_on:
            posterior, history = self._resumed(model, in_fit=True), self.history_
        else:
            self._forget("_posterior", "topic_names_")  # their vocabulary is gone
            posterior = self._start(model, rows, seed_entropy, rows.shape[0])
            history = monitors.new_history(model.criterion)
        posterior.n_seen = max(posterior.n_seen, rows.shape[0])
        posterior.is_warm = True  # once the first passes are made
        monitor = self._monitor(model, history, tol=self.tol)
        if account is not None:
            monitor.n_passes = before.n_iter_
            monitor.last, monitor.change = account["last"], account["change"]
        converged = False

        def fitted() -> dict[str, Any]:
            n_passes = monitor.n_passes
            return self._fitted_attributes(posterior, history, n_passes, converged)

        n_tasks = self.max_iter + self._n_further_passes(rows)
        n_tasks += int(self._needs_start(posterior))
        given = {"rows": rows, "executor": executor, "monitor": monitor}
        given |= {"goes_on": goes_on, "record": record}
        session = _checkpoints.FitSession(self, X, y, fitted, n_tasks, **given)
        try:
            with executor, monitors.shown(self.verbose):
                monitor.report(f"learns from {self._describe(rows)}")
                if self._needs_start(posterior):
                    with session.start():
                        self._find_start(posterior, rows, executor, monitor)
                has_settled = self._learn_all(posterior, session)
                converged = has_settled and not self._has_trials_left(posterior)
        finally:
            if not goes_on:
                self._number_topics(posterior)
            self.__dict__.update(fitted())
        if further is not None:
            further()
        record.end()
        self._warn_if_not_converged(monitor)
        self._warn_of_components()
        session.end()
        return self

    def _partial_fit(self, X, y, further: Callable[[], None] | None = None, **given):
        """Learn from a chunk of a stream, with arguments as in `_fit`."""
        self._validate_params()  # scikit-learn does so before the first chunk alone
        model, executor = self._make_model(), Executor(self.n_jobs)
        self._component_limit()
        goes_on = self.__sklearn_is_fitted__()
        rows = self._read(X, reset=not goes_on, method="partial_fit", **given)
        vocabulary = self._extended(X)
        if goes_on and self._can_continue():
            posterior = self._resumed(model, in_fit=False)
            if vocabulary is not None and vocabulary.size > self.n_features_in_:
                posterior = self._widened(posterior, rows, vocabulary)
            history, n_iter = self.history_, self.n_iter_
            monitors.thin(history)
        else:
            total = self._n_stream_docs or rows.shape[0]
            seed_entropy = draw_seed_entropy(self.random_state)
            posterior = self._start_stream(model, rows, seed_entropy, total)
            history, n_iter = monitors.new_history(model.criterion), 0
        n_steps = posterior.n_steps
        monitor = self._monitor(model, history)
        features = {} if vocabulary is None else _base.features_of(vocabulary)

        def fitted() -> dict[str, Any]:
            result = self._fitted_attributes(posterior, history, n_iter + 1)
            return result | features

        try:
            n_tasks = self._n_chunk_passes(rows)
            given = {"rows": rows, "executor": executor, "monitor": monitor}
            session = _checkpoints.FitSession(
                self, X, y, fitted, n_tasks, "partial_fit", **given
            )
            with executor, monitors.shown(self.verbose):
                self._learn_stream(posterior, session)
        except BaseException:
            if posterior.n_steps > n_steps:
                self.__dict__.update(fitted())
            elif not goes_on:
                self._forget("n_features_in_", "feature_names_in_")
            raise
        self.__dict__.update(fitted())
        if further is not None:
            further()
        _checkpoints.save_chunk(self, n_iter + 1)
        session.end()
        return self

    def _monitor(self, model, history, tol: float = 0.0) -> monitors.Monitor:
        """Return a monitor that extends a trace, with the words of the model."""
        return monitors.Monitor(
            history,
            tol=tol,
            verbose=self.verbose,
            criterion=model.criterion,
            parts_name=model.parts_name,
            unit=model.unit,
        )

    def _schedule(self, posterior, corpus, **changes) -> protocols.OnlineSchedule:
        """Return minibatches of a corpus, with step sizes from the present step on."""
        settings = {
            "seed_entropy": posterior.seed_entropy,
            "total_samples": corpus.n_docs,
            "first_step": posterior.n_steps - posterior.step_origin,
        }
        return protocols.OnlineSchedule(
            n_rows=corpus.n_docs,
            batch_size=self._batch_size(corpus.X),
            offset=self.learning_offset,
            decay=self.learning_decay,
            **(settings | changes),
        )

    def _fit_schedule(self, posterior, corpus, n_forgetting=np.inf) -> Any:
        """Return the schedule of a fit: all rows at once, or minibatches."""
        if self.learning_method == "batch":
            return protocols.BatchSchedule.of_rows(corpus.n_docs)
        if self.learning_method == "memoized":
            return self._schedule(posterior, corpus, reshuffle=False)
        return self._schedule(posterior, corpus, n_forgetting=n_forgetting)

    def _stream_schedule(self, posterior, rows, **changes) -> protocols.OnlineSchedule:
        """Return minibatches of a chunk, in the order of its rows."""
        settings = {
            "seed_entropy": None,
            "total_samples": self._n_stream_docs,
            "n_seen": posterior.n_seen,
        }
        return self._schedule(posterior, protocols.Corpus(rows), **(settings | changes))

    def _batch_size(self, rows) -> int:
        """Largest number of rows of a minibatch."""
        if not isinstance(self.batch_size, str):
            return self.batch_size
        return self._batch_size_of(rows.sum(), rows.shape[0])

    @staticmethod
    def _batch_size_of(n_tokens: float, n_docs: int) -> int:
        """Return the size at which minibatches have enough tokens, but are not many."""
        n_tokens = max(n_tokens / max(n_docs, 1), 1.0)  # of a document
        least = max(LEAST_DOCS, int(np.ceil(LEAST_TOKENS / n_tokens)))
        return max(least, min(int(n_docs) // MOST_UPDATES, MOST_DOCS))

    def _has_trials_left(self, posterior) -> bool:
        """Whether a converged fit may still change the number of components."""
        return False

    def _number_topics(self, posterior) -> None:
        """Give topics their final ids at the end of a new fit, in place."""

    def _why_not_converged(self) -> str:
        """Return why a fit may end without two bounds to compare."""
        return "leaves no two passes to compare."

    def _warn_if_not_converged(self, monitor: monitors.Monitor) -> None:
        """Warn if the objective has not converged."""
        exhausted = not self.converged_ and self.n_iter_ == self.max_iter
        if self.learning_method != "batch" or self.tol == 0 or not exhausted:
            return
        if np.isfinite(monitor.change):
            criterion = "bound" if monitor.criterion == "elbo" else monitor.criterion
            reason = (
                f"The {criterion} still changed by {monitor.change:.1e} (relative) in "
                f"the last of {self.max_iter} passes, tol={self.tol:g}. Increase "
                "max_iter or tol."
            )
        else:
            cause = self._why_not_converged()
            reason = f"max_iter={self.max_iter} {cause} Increase max_iter."
        warn_caller(reason, ConvergenceWarning)

    # -- loading ----------------------------------------------------------------------

    #: Classes of parts of the posterior, in files.
    _saved_parts: dict[str, type | tuple[type, ...]]

    def _check_saved(self) -> dict[str, int]:
        """Raise unless parts of a saved posterior go together; return its sizes."""
        posterior = self._posterior
        names = monitors.new_history(posterior.model.criterion)
        _saved.check_history(self.history_, names)
        n_features = self.n_features_in_
        sizes = _saved.check_posterior(posterior, n_features, **self._saved_parts)
        n = sizes["n_components"]
        _saved.check_number("n_components_", self.n_components_, least=n, most=n)
        return sizes

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")

    @property
    def _fitted_posterior(self) -> Any:
        """The posterior; raises if there is none yet."""
        valid.check_is_fitted(self)
        return self._posterior

    @property
    def n_samples_seen_(self) -> int:
        """Documents or rows learned from; in a stream, as often as they came."""
        return int(self._fitted_posterior.n_seen)

    def _last(self, criterion: str) -> float:
        """Return the latest value of the monitored quantity."""
        if self._fitted_posterior.model.criterion != criterion:
            raise AttributeError(
                f"This {type(self).__name__} has no {criterion}_: the fit was followed "
                f"by {self._posterior.model.criterion}."
            )
        trace = self.history_[criterion]
        if trace and np.isfinite(trace[-1]):
            return trace[-1]
        return sum(self._posterior.objective().values())


class CountModel(_base.TopicModelMixin, VariationalEstimator):
    """Base of variational models of counts: `fit` and `partial_fit` of documents."""

    def _describe(self, rows) -> str:
        return f"{rows.shape[0]} documents, {rows.shape[1]} terms"

    def _local_stop(self) -> protocols.LocalStop:
        return protocols.LocalStop(self.max_doc_update_iter, self.mean_change_tol)

    @valid.fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn topics from all documents.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts, or other non-negative weights; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            minibatch, or held out, as a whole.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns, or
            a parameter is outside its range.

        Warns
        -----
        ConvergenceWarning
            If different documents are too few to tell how many topics there are.
        UserWarning
            If values are no counts or multiples of these, or a column is no word but a
            number of the row, a total, or most of all tokens.
        """
        return self._fit(X, y, sample_weight=sample_weight)

    @valid.fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from a chunk of a stream: one online update per `batch_size` documents.

        The first call fixes the vocabulary of matrices. Columns of data frames go by
        their names: new ones extend the topics, absent ones are zeros. A failed call
        leaves the estimator as it was.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of the chunk; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        sample_weight : array-like of shape (n_samples,), default=None
            Whole numbers: a row of weight w counts as w copies of it, and one of weight
            0 is left out. None is 1 for all. Fractions raise ValueError: a row is in a
            minibatch, or held out, as a whole.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns,
            without names another number of columns than before, or none of the names.
        """
        return self._partial_fit(X, y, sample_weight=sample_weight)


class BoundMixin(ABC):
    """Base of estimators that have an evidence lower bound."""

    @abstractmethod
    def elbo_terms(self, X: MatrixLike) -> dict[str, float]:
        """Evidence lower bound by its terms, see `elbo`."""

    @property
    def elbo_(self) -> float:
        """Bound of the training data, or of the newest epoch, as of `elbo`."""
        return self._last("elbo")  # type: ignore[attr-defined]

    def elbo(self, X: MatrixLike) -> float:
        """Evidence lower bound of rows under the fitted model.

        The variational distribution of topics, or of the tree, is held fixed, and its
        divergence from the prior counts in full: the bound is that of data, or of an
        epoch, that consist of `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, as `fit` takes them: sparse, too, if it does.

        Returns
        -------
        elbo : float
            Nats per token of counts, else per row (if rows are directions, per row that
            is not zero); 0.0 if there is none.
        """
        return sum(self.elbo_terms(X).values())


class VariationalTopicModel(BoundMixin, CountModel, _base.ComponentEditsMixin):
    """Base of the variational estimators of HDPs: learning, edits and evaluation."""

    # Fitted
    doc_concentration_: float
    corpus_concentration_: float
    topic_word_prior_: float | np.ndarray

    @abstractmethod
    def _start_state(self, n_docs: float, shares: np.ndarray | None) -> Any:
        """Return the state before the first update, for a corpus of `n_docs` documents.

        `shares` are those of topics in the corpus, (K,); None: about equal ones.
        """

    def _round_moves(self) -> protocols.Moves:
        """Return the moves of online learning."""
        return protocols.NO_MOVES

    def _local_step(self, executor: Executor) -> protocols.DocumentLocalStep:
        return protocols.DocumentLocalStep(
            self._local_stop(), executor, self._evaluation_step
        )

    #: The document step of evaluation.
    _evaluation_step: Any = DocumentStep
    #: Parameter that says how many topics a fit starts from.
    _size_name = "n_components"
    _posterior_class: type[Posterior] = Posterior

    # -- learning ---------------------------------------------------------------------

    def _n_started(self) -> int:
        """Number of topics at the start."""
        return getattr(self, self._size_name)

    def _learned(self) -> dict[str, Any]:
        """Settings of the priors that are learned."""
        return {
            "learn_concentrations": self.learn_priors is not False,
            "learn_topic_prior": self.learn_priors is True,
            "corpus_prior": valid.check_gamma_prior(self, "corpus_concentration_prior"),
            "doc_prior": valid.check_gamma_prior(self, "doc_concentration_prior"),
        }

    def _accept(self, counts, X, *, reset, method):
        """Check known topics, and a model to start from, against the vocabulary."""
        if reset:
            if not isinstance(self.init, str):
                _known_topics.check_names(self.init, X)
                _known_topics.given_topics(self.init, counts.shape[1])
            names = valid.feature_names_of(X)
            may_come = method == "partial_fit" and names is not None
            self._resolve_known(counts.shape[1], names, may_come=may_come)
        return counts

    def _resolve_known(
        self, n_features, names, *, may_come
    ) -> _known_topics.Resolved | None:
        """Return the topics that are known before a fit, or None."""
        prior, size = self.topic_word_prior, self._n_started()
        return _known_topics.resolve(prior, n_features, names, size, may_come=may_come)

    def _start(self, model, counts, seed_entropy, n_docs) -> Posterior:
        """Return the posterior before the first update, from all documents."""
        corpus = self._corpus(counts, seed_entropy)
        seen = SeenWords.of(corpus.word_counts())
        return self._start_from(corpus, seen, model, seed_entropy, n_docs)

    def _start_from(
        self, corpus, seen, model, seed_entropy, n_docs, given=None
    ) -> Posterior:
        """Return the posterior before the first update: topics of equal size.

        Or topics that are `given`, by default those of `init`. They have counts of the
        words `seen` alone; `n_docs` is the size of the corpus.
        """
        rng, shares = stream(seed_entropy, Purpose.START), None
        n_tokens = corpus.n_tokens / max(corpus.n_docs, 1) * n_docs
        names = getattr(self, "feature_names_in_", None)
        known = self._resolve_known(seen.n_vocabulary, names, may_come=True)
        if not isinstance(self.init, str):
            if known is not None:
                raise ValueError(
                    "Topics to start from are given by init, and known ones by "
                    "topic_word_prior: pass one of these. Known topics take the "
                    "components_ of another model, too."
                )
            given = _known_topics.given_topics(self.init, seen.n_vocabulary)
        if given is not None:
            topics = given.tokens(seen.words, n_tokens)
            topics, shares = self._filled(topics, given.weights, corpus, seen, rng)
        else:
            topics = self._start_topics(corpus, seen.words, self._n_started(), rng)
            if known is not None:
                whole = corpus.word_counts()[seen.words]
                topics = self._behind_known(topics, whole, rng)
                documents = known.document(corpus, seen.words)
                started = self._mix_with_corpus(documents, whole, rng)
                topics[:, : known.n_topics] = started
            if len(seen):
                topics *= max(n_tokens, 1.0) / topics.shape[1] / topics.sum(axis=0)
        state, ids = self._start_state(n_docs, shares), np.arange(topics.shape[1])
        words = WordTopics(topics, seen)
        if known is not None:
            ids[: known.n_topics] = known.order
            counts = corpus.word_counts() * (n_docs / max(corpus.n_docs, 1))
            words = WordTopics(topics, seen, known.known(counts))
        return self._posterior_class(
            model,
            state,
            model.start(state, words),
            ids,
            [Lineage(0, "init", (), tuple(ids.tolist()))],
            seed_entropy=seed_entropy,
            max_components=self._component_limit(),
        )

    def _filled(self, topics, weights, corpus, seen, rng):
        """Return given topics and their shares, with further ones if needed."""
        return topics, weights

    def _corpus(self, rows, seed_entropy: int) -> Any:
        """Return the rows to learn from as a `Corpus`."""
        return protocols.Corpus(rows)

    def _start_topics(self, corpus, words, n_components: int, rng) -> np.ndarray:
        """Return topics of noise, or of a document each with noise, (n_words, K)."""
        topics = gamma_noise((len(words), n_components), rng)
        if self.init != "random" and corpus.n_docs > 0:
            topics *= 0.1
            topics += drawn_documents(corpus, words, n_components, rng)
        return topics

    def _behind_known(self, topics, whole, rng) -> np.ndarray:
        """Return start topics that let known ones take the words of these first."""
        return blur(topics, SHARE_BESIDE_KNOWN, whole, rng) if whole.any() else topics

    def _mix_with_corpus(self, documents, whole, rng) -> np.ndarray:
        """Return start topics of documents, (n_words, n)."""
        return 0.1 * gamma_noise(documents.shape, rng) + documents

    def _can_continue(self) -> bool:
        return len(self._posterior.global_stats.topic_words.seen) > 0

    def _resumed(self, model, *, in_fit: bool) -> Posterior:
        if in_fit:
            self._check_size("with warm_start=True")
        return super()._resumed(model, in_fit=in_fit)

    def _widened(self, posterior, rows, vocabulary: valid.Vocabulary) -> Posterior:
        """Return a posterior with new columns and boosts of new seed words."""
        words = posterior.global_stats.topic_words.copy()
        global_stats = posterior.global_stats
        n_before, names = words.shape[0], vocabulary.names
        words.widen(len(names))
        if len(words.known):
            scale = (self._n_stream_docs or rows.shape[0]) / max(rows.shape[0], 1)
            counts = np.asarray(rows.sum(axis=0)).ravel() * scale
            ids = posterior.ids[words.known.columns]
            boosts = _known_topics.new_boosts(
                self.topic_word_prior, ids, names, n_before, counts
            )
            if boosts is not None:
                words.boost_words(*boosts)
        return replace(posterior, global_stats=replace(global_stats, topic_words=words))

    def _learn_chunk(self, posterior, counts, executor, monitor) -> None:
        least = self._least_samples(posterior, counts)
        learner = self._stream_learner(
            posterior, counts, executor, engine.NOTHING, least_samples=least
        )
        learner.one_pass(monitor)

    def _stream_learner(
        self, posterior, counts, executor, documents, **changes
    ) -> engine.StreamLearner:
        """Return the learner of documents of a stream, with changes of the schedule."""
        return engine.StreamLearner(
            posterior,
            protocols.Corpus(counts),
            self._stream_schedule(posterior, counts, **changes),
            self._local_step(executor),
            engine.RunningAverage(documents),
            self._round_moves(),
            warm_up=self._stream_warm_up(posterior),
        )

    def _least_samples(self, posterior, counts) -> float:
        """Least number of documents that a stream stands for."""
        return 0.0

    def _why_not_converged(self) -> str:
        return (
            "leaves no two passes to compare after the warm-up of "
            f"{self.warm_up} (and after trials of other topics, where there are any)."
        )

    def _stream_warm_up(self, posterior: Posterior) -> float:
        """Number of first documents of a stream with mean weights."""
        if self.warm_up == 0 or posterior.is_warm:
            return 0.0
        if self._n_stream_docs is None:
            return STREAM_WARM_UP
        return self.warm_up * self._n_stream_docs

    def _number_topics(self, posterior) -> None:
        """Renumber topics by weight at the end of a new fit, in place."""
        n_fixed = 0  # topics that users know by their number keep it
        if not isinstance(self.init, str):
            n_fixed = _known_topics.n_given(self.init)
        words, n_named = posterior.global_stats.topic_words, posterior.n_named
        tokens = words.tokens
        known = posterior.ids[words.is_known].max(initial=-1) + 1
        n_fixed = max(n_fixed, int(known))
        names = names_by_weight(posterior.ids, tokens, n_named, n_fixed)
        with commit():
            posterior.rename(names)
            _base.send_new_ids(self, names)

    def _fitted_attributes(self, posterior, history, n_iter, converged=False):
        state, rows = posterior.state, posterior.rows
        words, names = posterior.global_stats.topic_words, dict[str, Any]()
        prior = state.topic_word_prior
        if len(words.known):
            prior = np.ascontiguousarray(words.priors().T[rows])
            names = _known_topics.given_names(self, posterior.ids)
        return {
            **super()._fitted_attributes(posterior, history, n_iter, converged),
            **names,
            "component_ids_": posterior.ids[rows],
            "topic_weights_": state.topic_weights[rows],
            "doc_concentration_": state.doc_concentration,
            "corpus_concentration_": state.corpus_concentration,
            "topic_word_prior_": prior,
        }

    def _warn_of_components(self) -> None:
        """Warn if priors of seed words outweigh the documents of their topics."""
        words = self._posterior.global_stats.topic_words
        if len(words.known) and not words.known.is_whole:
            known, ids = words.known, self._posterior.ids
            boosts, tokens = known.boosts.sum(axis=0), words.tokens[known.columns]
            given = self.topic_word_prior, ids[known.columns]
            _known_topics.warn_of_heavy_priors(*given, boosts, tokens)

    def _check_size(self, where: str) -> None:
        """Raise if the number of components is not that of the fit so far."""
        n_started = len(self.lineage_[0].children)
        asked = self._n_started()
        if n_started not in (asked, getattr(self, self._size_name)):
            raise ValueError(
                f"{self._size_name}={asked} {where}, but the fit began with "
                f"{n_started}."
            )

    # -- editing ----------------------------------------------------------------------

    @property
    def _known_ids(self) -> np.ndarray:
        return self._posterior.ids[self._posterior.global_stats.topic_words.is_known]

    @property
    def _frozen_ids(self) -> np.ndarray:
        return self._posterior.ids[self._posterior.global_stats.topic_words.is_fixed]

    def _merge(self, pairs: Sequence[tuple[int, int]]) -> None:
        for pair in pairs:
            self._posterior.merge([pair])

    def _drop(self, ids: list[int]) -> None:
        self._posterior.remove(ids)

    def _publish_edits(self) -> None:
        model = self._posterior.model
        if self.history_[model.criterion]:
            if model.has_bound:  # what else a fit was followed by is of that fit
                bound = sum(self._posterior.objective().values())
                self.history_[model.criterion][-1] = bound
            self.history_["n_components"][-1] = self._posterior.state.n_components
        given = self._posterior, self.history_, self.n_iter_, self.converged_
        self.__dict__.update(self._fitted_attributes(*given))

    # -- evaluation: reads the posterior, writes nothing, draws nothing ----------------

    @property
    def components_(self) -> np.ndarray:
        """Variational Dirichlet parameters of the topics, (n_components_, V)."""
        words = self._fitted_posterior.global_stats.topic_words
        topic_counts = words.dense()
        topic_counts += self._posterior.state.topic_word_prior
        words.put_given(topic_counts)
        return np.ascontiguousarray(topic_counts.T[self._posterior.rows])

    @property
    def _topic_tokens(self) -> np.ndarray:
        """Expected tokens of each topic, (n_components_,), without priors.

        If documents repeat words, first uses alone.
        """
        posterior = self._fitted_posterior
        return posterior.global_stats.topic_words.tokens[posterior.rows]

    @property
    def n_active_components_(self) -> int:
        """Topics with at least max(1, 1e-4 of all) expected tokens."""
        return int(_base.are_in_use(self._topic_tokens).sum())

    @property
    def _prediction_state(self) -> Any:
        """State by which `score` and `transform` infer proportions."""
        return self._posterior.state

    def _predictor(self) -> fold_in.MixturePredictor:
        posterior = self._fitted_posterior
        concentration = self._prediction_state.doc_concentration
        words, rows = posterior.global_stats.topic_words, posterior.rows
        prior = fold_in.doc_prior_of(concentration, self.topic_weights_)
        state, prior = posterior.state, fold_in.with_rest(prior, len(rows))
        topics = fold_in.MeanTopics.of(words, state.topic_word_prior)
        return fold_in.MixturePredictor(
            [fold_in.OrderedTopics(topics, rows, prior)],
            burstiness=getattr(state, "burstiness", None),
            background_weight=getattr(state, "background_weight", 0.0),
        )

    def _doc_topics(self, counts: sp.csr_array) -> tuple[Any, np.ndarray, np.ndarray]:
        with Executor(self.n_jobs) as executor:
            result = self._infer_counts(self._posterior, counts, executor)
        return result, self._prediction_state.doc_prior, self._posterior.rows

    def _expected_uses(self, counts: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
        """Expected uses of topics in documents, (n_docs, n_components_), and of words.

        Uses of words are their counts, or with burstiness first uses.
        """
        result, _, columns = self._doc_topics(counts)
        return result[:, columns], counts.data

    def _infer_counts(self, posterior, counts, executor) -> sp.csr_array:
        """Expected tokens of each topic in each document, (n_docs, K)."""
        batch = Batch.from_counts(counts, posterior.state.n_components)
        given = protocols.StepInput(posterior, batch, self._local_stop(), executor)
        step = DocumentStep.prepare(given)
        return expected_counts(step, batch, executor)

    def _elbo_terms(self, X) -> dict[str, float]:
        """Terms of the bound of documents, nats per token."""
        counts, _ = self._check_counts(X, "elbo")
        with Executor(self.n_jobs) as executor:
            stop, posterior = self._local_stop(), self._posterior
            local_step = protocols.DocumentLocalStep(
                stop, executor, self._evaluation_step
            )
            fresh = local_step.update_local(posterior, counts).stats
        terms = posterior.model.bound(
            posterior.state, posterior.global_stats.topic_words, fresh
        )
        return per_token(terms, fresh.n_tokens)


def drawn_documents(corpus: protocols.Corpus, words, n_drawn: int, rng) -> np.ndarray:
    """Counts of some words in random documents, (n_words, n_drawn).

    Distinct documents, if there are enough.
    """
    chosen = rng.choice(corpus.n_docs, n_drawn, replace=corpus.n_docs < n_drawn)
    rows, places = np.unique(chosen, return_inverse=True)
    stored = corpus.fetch(rows)[:, words].tocsc()
    drawn = np.empty((len(words), n_drawn))
    for some in row_parts(drawn.shape):
        drawn[some] = stored[:, some].T.toarray()[:, places]
    return drawn
