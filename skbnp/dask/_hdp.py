"""The direct-assignment HDP topic model, for documents on a cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NoReturn, Self

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.delayed import delayed
from sklearn.base import BaseEstimator

from skbnp.dask._base import CLUSTER_PARAMETERS, ShardedMixin, no_shares
from skbnp.dask._checkpoints import Checkpoints, ShardRecord
from skbnp.dask._inputs import is_frame, is_lazy
from skbnp.dask._labels import Labels
from skbnp.dask._sessions import Session
from skbnp.estimators import HDP as LocalHDP
from skbnp.estimators._base import drop_empty
from skbnp.estimators._hdp import REMEMBERED
from skbnp.estimators._known_topics import TopicPriorLike
from skbnp.inference.executor import Executor, Run
from skbnp.inference.memory import NOTHING, RunningAverage
from skbnp.inference.monitor import Account
from skbnp.inference.schedules import OnlineSchedule
from skbnp.inference.shards import Shards
from skbnp.metrics import split_tokens
from skbnp.models.hdp.moves.settings import SplitMerge
from skbnp.models.hdp.shard_corpus import BlockDocumentWeights, ShardCorpus, Survey
from skbnp.models.hdp.shard_schedules import BlockSchedule, WholeSchedule, n_blocks
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_documents, check_is_fitted, feature_names_of

__all__ = ["HDP"]

#: The one label of rows.
DOCUMENTS = "documents"


def read_counts(X: MatrixLike, labels: Labels) -> dict[str, sp.csr_array]:
    """Check counts, and leave out documents without tokens."""
    counts, _ = check_documents(LocalHDP(), X, reset=True, method="fit")
    return {DOCUMENTS: drop_empty(counts)}


@dataclass(frozen=True)
class Documents:
    """Documents where they are, and where a fit to them is written."""

    session: Session
    survey: Survey
    checkpoints: Checkpoints | None
    account: Account | None  # to continue from

    @property
    def shape(self) -> tuple[int, int]:
        """Documents with tokens, and words of the vocabulary."""
        return self.survey.shape


class HDP(ShardedMixin, LocalHDP):
    """Hierarchical Dirichlet process topic model of documents that stay where they are.

    What `skbnp.HDP` is, for blocks of documents on the workers of a Dask cluster: the
    same model, families, parameters and fitted attributes. Workers process documents;
    topics, their number and all decisions are this process's.

    Parameters
    ----------
    n_components : int, default=300
        Number of represented topics to start from, at least 1.
    max_components : int or None, default=None
        Bound of the number of topics that moves may reach, at least `n_components`.
        None is 1,000, or `n_components` if that is more.
    variational_family : {"collapsed", "mean_field"}, default="collapsed"
        As in `skbnp.HDP`.
    learning_method : {"online", "batch"}, default="online"
        "online": rounds of some documents of each shard, with decreasing steps.
        "batch": one round of all documents in a pass, and no steps. Documents are not
        kept from pass to pass, so there is no "memoized", and in the
        mean-field family of "batch" each pass starts documents afresh: the bound may
        fall a little.
    doc_concentration, corpus_concentration, topic_word_prior : float
        Concentrations alpha and gamma, 1.0 by default, and Dirichlet parameter eta,
        0.05, that learning starts from; in [1e-100, 1e10].
    burstiness : "auto" or False, default=False
        Whether documents repeat words for reasons of their own, as in `skbnp.HDP`.
    learn_priors : bool, "auto" or "concentrations", default="auto"
        What is learned of the priors, as in `skbnp.HDP`.
    corpus_concentration_prior, doc_concentration_prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma priors under which concentrations are learned.
    split_merge : bool or SplitMerge, default=True
        Whether the number of topics changes, judged by held-out documents; those, and
        documents that new topics start from, travel to this process.
        ``SplitMerge(criterion="bound")`` is refused: it needs the memory of all
        documents.
    batch_size : int or "auto", default="auto"
        Documents of a round, of all its shards together, at most; online. "auto":
        as many as leave 32 rounds in a pass, but those that `skbnp.HDP` would take.
    learning_offset : float, default=1.0
        Offset of the step sizes (tau), >= 0.
    learning_decay : float, default=0.5
        Decay of the step sizes (kappa), in [0.5, 1].
    total_samples : float or None, default=None
        Without effect: `fit` uses the number of documents.
    max_iter : int, default=100
        Passes over the data, warm-up and trials included.
    tol : float, default=1e-4
        As in `skbnp.HDP`.
    max_doc_update_iter : int, default=100
        Iterations for one document, at most.
    mean_change_tol : float, default=1e-3
        The iteration of a document ends at such a change per token.
    warm_up : int, default=5
        First passes of a fit, and of each trial, with mean topics (mean-field).
    init : {"docs", "random"} or fitted topic model, default="docs"
        As in `skbnp.HDP`.
    sparse_output : bool, default=False
        Whether `transform` returns csr_arrays, as in `skbnp.HDP`.
    n_jobs : int or None, default=None
        Threads of this process. Workers use theirs.
    random_state : int, RandomState instance or None, default=None
        Start and order of documents, and which are held out. The same int gives the
        same bits, for the same blocks, on however many workers of one kind of CPU.
    verbose : int, default=0
        Passes between messages; 0 for none.
    warm_start : bool, default=False
        Whether `fit` continues from the present topics.
    client : distributed.Client or None, default=None
        The cluster. None does the same in this process.
    checkpoint_dir : path-like or None, default=None
        Where what has been learned is written after each pass: arrays and JSON alone,
        renamed when they are whole; the newest two stay. What another fit has left
        there is removed, unless `resume` is set.
    resume : bool, default=False
        Whether `fit` continues from the newest checkpoint, if there is one: to the bits
        of a fit that nothing has stopped. It needs `checkpoint_dir`.
    shards_per_round : int or None, default=None
        Shards whose documents a round updates; None is all. Results depend on it,
        and on how rows are cut into blocks, but not on which workers have them.
    timeout : float, default=30.0
        Seconds without a sign of life after which a worker is given up, and without any
        worker after which `fit` is.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features)
        Variational Dirichlet parameters of the topics.
    topic_word_distr_ : ndarray of shape (n_components_, n_features)
        Expected topics; rows sum to one.
    topic_weights_ : ndarray of shape (n_components_,)
        Corpus-level weights.
    n_components_, n_active_components_ : int
        Number of represented topics, and of those in use.
    n_components_range_ : tuple of (int, int) or None
        The smallest and the largest number of topics, of those compared, under which
        held-out documents are predicted within one standard error of the best.
    component_ids_ : ndarray of shape (n_components_,)
        The number of each topic, which it keeps for life.
    lineage_ : list of named tuples (step, kind, parents, children)
        Where each id came from.
    doc_concentration_, corpus_concentration_, topic_word_prior_ : float
        Values in force after learning.
    prediction_concentration_ : float
        Concentration of documents in `score` and `transform`.
    word_discount_, word_concentration_ : float
        Of the words that documents repeat, as in `skbnp.HDP`.
    elbo_, log_predictive_ : float
        What the fit was followed by, in nats per token, of the mean-field and of the
        collapsed family.
    converged_ : bool
        Whether the last fit converged, with no trial left.
    history_ : dict of lists
        One entry per update.
    n_iter_ : int
        Passes made by the last `fit`.
    n_features_in_ : int
        Size of the vocabulary.

    See Also
    --------
    skbnp.HDP : For documents in one process.

    Notes
    -----
    Each shard is cut into blocks of random documents, once in a fit. A round visits a
    block of each shard, or of each of some shards, and one update follows. What
    travels in a round: the expected counts of words and topics that its documents use,
    from each worker, and the sum of these to each worker, which follows the topics by
    itself; at the start of a trial, and to workers that have come anew, all topics.

    How often totals hold a document, which the collapsed step takes out, is known by
    block, for documents of a block are updated together. Held-out documents are those
    of the smallest random keys, as many as hold 40,000 tokens at the most (or 200);
    they travel to this process, and trials are judged here. Documents that topics
    start from travel too, one for each new topic.

    Results are not those of `skbnp.HDP`, whose minibatches are drawn anew in each
    pass, but predict alike; ``client=None`` has the bits of any cluster.

    Examples
    --------
    >>> import dask.array as da
    >>> from skbnp.dask import HDP
    >>> from skbnp.datasets import make_bars
    >>> X = da.from_array(make_bars(300, random_state=0).data, chunks=(100, -1))
    >>> hdp = HDP(n_components=40, random_state=0).fit(X)
    >>> hdp.transform(X).shape == (300, hdp.n_components_)
    True
    """

    _local_class = LocalHDP
    _parameter_constraints: dict = {
        **LocalHDP._parameter_constraints,
        **CLUSTER_PARAMETERS,
    }

    def __init__(
        self,
        n_components=300,
        *,
        max_components=None,
        variational_family="collapsed",
        learning_method="online",
        doc_concentration=1.0,
        corpus_concentration=1.0,
        topic_word_prior: TopicPriorLike = 0.05,
        burstiness: bool | str = "auto",
        learn_priors: bool | str = "auto",
        corpus_concentration_prior: Sequence[float] = (1.0, 1.0),
        doc_concentration_prior: Sequence[float] = (1.0, 1.0),
        split_merge: bool | SplitMerge = True,
        batch_size: int | str = "auto",
        learning_offset=1.0,
        learning_decay=0.5,
        total_samples=None,
        max_iter=100,
        tol=1e-4,
        max_doc_update_iter=100,
        mean_change_tol=1e-3,
        warm_up=5,
        init: str | BaseEstimator = "docs",
        sparse_output=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
        warm_start=False,
        client=None,
        checkpoint_dir=None,
        resume=False,
        shards_per_round=None,
        timeout=30.0,
    ):
        super().__init__(
            n_components,
            max_components=max_components,
            variational_family=variational_family,
            learning_method=learning_method,
            doc_concentration=doc_concentration,
            corpus_concentration=corpus_concentration,
            topic_word_prior=topic_word_prior,
            burstiness=burstiness,
            learn_priors=learn_priors,
            corpus_concentration_prior=corpus_concentration_prior,
            doc_concentration_prior=doc_concentration_prior,
            split_merge=split_merge,
            batch_size=batch_size,
            learning_offset=learning_offset,
            learning_decay=learning_decay,
            total_samples=total_samples,
            max_iter=max_iter,
            tol=tol,
            max_doc_update_iter=max_doc_update_iter,
            mean_change_tol=mean_change_tol,
            warm_up=warm_up,
            init=init,
            sparse_output=sparse_output,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
            warm_start=warm_start,
        )
        self.client = client
        self.checkpoint_dir = checkpoint_dir
        self.resume = resume
        self.shards_per_round = shards_per_round
        self.timeout = timeout

    # -- learning ---------------------------------------------------------------------

    def fit(  # type: ignore[override]
        self, X: MatrixLike, y: object = None
    ) -> Self:
        """Learn topics from all documents.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame, dask.bag.Bag, list of Delayed \
                or of matrices, str or list of path-like
            Counts, or other non-negative weights, in blocks: chunks of an array, which
            may be sparse, of unknown size, or empty; partitions of a frame, or of a bag
            of rows or of matrices; `.npz` files of `scipy.sparse.save_npz`, by name or
            pattern, which workers read. An array or a sparse matrix is one block.
        y : None
            Ignored, but handed on to callbacks.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns, a
            parameter is outside its range, or a checkpoint is of another fit.
        WorkersLostError
            If there has been no worker for `timeout` seconds.
        """
        try:
            return super().fit(X, y)
        finally:
            self._close()

    @property
    def partial_fit(self) -> NoReturn:
        """Not there: blocks on a cluster are no stream."""
        raise AttributeError(
            "HDP on a cluster has no partial_fit: fit skbnp.HDP to a stream."
        )

    def _make_model(self):
        if self.learning_method == "memoized":
            raise ValueError(
                'learning_method="memoized" remembers each document, which shards do '
                'not: use "online" or "batch".'
            )
        moves = self._moves()
        if moves is not None and moves.criterion == "bound":
            raise ValueError(
                'SplitMerge(criterion="bound") needs the memory of all documents, '
                'which shards do not have: use criterion="held_out", or skbnp.HDP.'
            )
        return super()._make_model()

    def _read(  # type: ignore[override]
        self, X, *, reset: bool, method: str
    ) -> Documents:
        session = self._open(X, None, read_counts)
        if reset:
            names = feature_names_of(X._meta) if is_frame(X) else None
            self._known_topics(session.n_features, names, may_come=False)
        self._check_features(session, X, reset=reset)
        survey = Survey.of(_shards(session, map))
        self._warn_of(survey.counts, survey.words, in_fit=True)
        checkpoints, account = self._checkpoints(session), None
        if checkpoints is not None and reset and self.resume:
            account = checkpoints.read()
        elif checkpoints is not None:
            checkpoints.clear()
        return Documents(session, survey, checkpoints, account)

    def _corpus(self, rows: Documents, seed_entropy: int) -> ShardCorpus:
        survey, (n_docs, _) = rows.survey, rows.shape
        fixed = None if isinstance(self.batch_size, str) else self.batch_size
        least = self._batch_size_of(survey.n_tokens, n_docs)
        n_groups = self._n_groups(len(survey.n_docs))
        cut = n_blocks(n_docs, fixed, least, n_groups)
        return ShardCorpus.of(survey, seed_entropy, cut)

    def _n_groups(self, n_shards: int) -> int:
        """Rounds in which a block of each shard is updated."""
        return -(-n_shards // (self.shards_per_round or max(n_shards, 1))) or 1

    def _record(self, rows: Documents, goes_on: bool) -> ShardRecord:
        super()._record(rows, goes_on)  # refuses callbacks that write files
        return ShardRecord(rows.checkpoints, rows.account)

    def _around(self, posterior, rows: Documents, executor):
        survey = replace(rows.survey, shards=_shards(rows.session, executor.map))
        corpus = self._corpus(replace(rows, survey=survey), posterior.seed_entropy)
        return (*super()._around_corpus(posterior, corpus, executor), survey.shards)

    def _hold_out(self, corpus, seed_entropy):
        return corpus.hold_out(0)

    def _splits(self, corpus, posterior):
        return []  # a corpus on a cluster is large

    def _documents(self, corpus, goes_on):
        if self._is_collapsed:
            return BlockDocumentWeights(corpus.sizes.size, float(goes_on))
        return NOTHING

    def _cache(self, warm_up, documents):
        return RunningAverage(documents)

    def _rounds(self, posterior, corpus, **changes):
        n_groups = self._n_groups(len(corpus.sizes))
        settings = {
            "n_rows": n_groups * corpus.cut.n_blocks,
            "batch_size": 1,
            "seed_entropy": posterior.seed_entropy,
            "first_step": posterior.n_steps - posterior.step_origin,
            "offset": self.learning_offset,
            "decay": self.learning_decay,
        }
        steps = OnlineSchedule(**settings | changes)
        return BlockSchedule(corpus.sizes, n_groups, steps)

    def _fit_schedule(self, posterior, corpus, n_forgetting):
        if self.learning_method == "batch":
            return WholeSchedule(corpus.sizes)
        schedule = self._rounds(posterior, corpus, n_forgetting=n_forgetting)
        return schedule.remembering(REMEMBERED)

    # -- evaluation: lazy where rows are ----------------------------------------------

    def transform(self, X: MatrixLike) -> np.ndarray | DaskArray:  # type: ignore[override]
        """Infer the topic proportions of documents.

        Parameters
        ----------
        X : array-like, or documents in blocks as in `fit`
            Counts; rows are documents.

        Returns
        -------
        doc_topic_distr : {ndarray, dask.array.Array} of shape \
                (n_samples, n_components_)
            Expected proportions; rows sum to one; lazy where `X` is, with blocks that
            are sparse if `sparse_output`.
        """
        if not is_lazy(X):
            return super().transform(X)
        check_is_fitted(self)
        return self._lazy_rows(X, None, _transform, no_shares(self))

    def score(  # type: ignore[override]
        self, X: MatrixLike, y: object = None, *, repeats: bool = True
    ) -> float | DaskArray:
        """Mean log probability of held-out tokens, by document completion.

        Parameters
        ----------
        X : array-like, or documents in blocks as in `fit`
            Counts; rows are documents.
        y : None
            Ignored.
        repeats : bool, default=True
            Whether a document predicts words that it has shown, as in `skbnp.HDP`.

        Returns
        -------
        score : float or dask.array.Array of shape ()
            Nats per held-out token; 0.0 if no token can be scored; lazy where `X` is.
        """
        if not is_lazy(X):
            return super().score(X, y, repeats=repeats)
        check_is_fitted(self)
        parts = list(self._blockwise(X, None, partial(_score, repeats=bool(repeats))))
        return da.from_delayed(delayed(_mean)(parts), (), dtype=np.float64)


def _shards(session: Session, run: Run) -> Shards:
    return session.shards(DOCUMENTS, run, is_lasting=True)


def _transform(local: LocalHDP, X: MatrixLike, labels: Labels) -> np.ndarray:
    return local.transform(X) if X.shape[0] else no_shares(local)


def _score(
    local: LocalHDP, X: MatrixLike, labels: Labels, *, repeats: bool
) -> tuple[float, float]:
    """Sum of the log probabilities of held-out tokens, and their number."""
    if X.shape[0] == 0:
        return 0.0, 0.0
    counts, _ = local._check_counts(X, "score")
    observed, held_out = split_tokens(counts)
    with Executor(1) as executor:
        predictor = local._predictor()
        predictor = replace(predictor, repeats=repeats)
        total = predictor.log_likelihood(observed, held_out, executor)
    return float(total), float(held_out.sum())


def _mean(parts: Iterable[tuple[float, float]]) -> np.float64:
    global_stats, n_tokens = zip(*parts, strict=True)
    return np.float64(sum(global_stats) / sum(n_tokens) if sum(n_tokens) else 0.0)
