"""Estimator of the HDP, for documents on a Dask cluster."""

from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from numpy.typing import ArrayLike

from skbnp.dask import _base, _inputs
from skbnp.estimators import HDP as LocalHDP
from skbnp.inference.engine import NOTHING, RunningAverage
from skbnp.inference.executor import Executor, Run
from skbnp.inference.protocols import BatchSchedule, OnlineSchedule
from skbnp.inference.shards import Shards
from skbnp.metrics import split_tokens
from skbnp.models.hdp import shards as hdp_shards
from skbnp.utils.labels import Factors, check_groups
from skbnp.utils.typing import MatrixLike
from skbnp.utils.validation import check_documents, feature_names_of, fit_context

#: The one label of rows.
DOCUMENTS = "documents"


def read_counts(X: MatrixLike, labels: _inputs.Labels) -> dict[str, sp.csr_array]:
    """Check counts; leave out blocks without tokens."""
    counts, _ = check_documents(LocalHDP(), X, reset=True, method="fit")
    return {DOCUMENTS: counts if counts.nnz else counts[:0]}


@dataclass(frozen=True)
class ShardedDocuments:
    """Documents in shards, with the session they are in."""

    session: _base.Session
    survey: hdp_shards.Survey

    @property
    def shape(self) -> tuple[int, int]:
        """Number of documents with tokens, and of words."""
        return self.survey.shape

    @property
    def digest(self) -> str:
        """Digest of the blocks."""
        return _base.data_digest(self.session)


@_base.extended
@dataclass(eq=False, repr=False)
class HDP(_base.ShardedMixin, LocalHDP):
    """Hierarchical Dirichlet process topic model of documents that stay where they are.

    What `skbnp.HDP` is, for blocks of documents on the workers of a Dask cluster: the
    same model, families, parameters and fitted attributes. Workers process documents;
    topics, their number and all decisions are this process's.

    Parameters
    ----------
    learning_method : {"online", "batch"}, default="online"
        "online": rounds of some documents of each shard, with decreasing steps.
        "batch": one round of all documents in a pass, and no steps. Documents are not
        kept from pass to pass, so there is no "memoized", and in the
        mean-field family of "batch" each pass starts documents afresh: the bound may
        fall a little.
    split_merge : bool or SplitMerge, default=True
        Whether the number of topics changes, judged by held-out documents; those, and
        documents that new topics start from, travel to this process.
        ``SplitMerge.paper()`` is refused: the bound of whole minibatches judges there.
    batch_size : int or "auto", default="auto"
        Documents of a round, of all its shards together, at most; online. "auto":
        as many as leave 32 rounds in a pass, but those that `skbnp.HDP` would take.
    total_samples : float or None, default=None
        As in `skbnp.HDP`, of `partial_fit` alone: `fit` uses the number of documents.
    random_state : int, RandomState instance or None, default=None
        Start and order of documents, and which are held out. The same int gives the
        same bits, for the same blocks, on however many workers of one kind of CPU.
    shards_per_round : int or None, default=None
        Shards whose documents a round updates; None is all. Results depend on it,
        and on how rows are cut into blocks, but not on which workers have them.

    Attributes
    ----------
    n_iter_ : int
        Passes made by the last `fit`.

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
    of the smallest random keys, as many as hold 40,000 tokens at most (or 200);
    they travel to this process, and trials are judged here. Documents that topics
    start from travel too, one for each new topic. Groups are learned in this process
    from the few numbers that say which topics each document uses.

    Results are not those of `skbnp.HDP`, whose minibatches are drawn anew in each
    pass, but predict equally well; ``client=None`` has the bits of any cluster. Fit
    few documents, below 400 or 80,000 tokens, with `skbnp.HDP`: there each of them
    judges numbers of topics in turn, here one held-out sample does.

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

    # -- learning ---------------------------------------------------------------------

    def fit(  # type: ignore[override]
        self, X: MatrixLike, y: object = None, *, groups: ArrayLike | int | None = None
    ) -> Self:
        """Learn topics from all documents, then what groups of these use.

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
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of all documents in the order of their blocks, as in `skbnp.HDP`;
            lazy ones are computed. An int: so many kinds of documents without labels.

        Returns
        -------
        self : object
            The fitted estimator. After an interrupt (Ctrl-C) it holds the last
            complete update.

        Raises
        ------
        ValueError
            If `X` has negative, infinite or missing values, no rows or no columns, a
            parameter is outside its range, `groups` has not one label for each row in
            each factor, or a checkpoint is of another fit.
        WorkersLostError
            If there has been no worker for `timeout` seconds.
        """
        given = groups if isinstance(groups, Integral) else check_factors(groups)
        with self._with_checkpoints():
            return self._learn(X, y, given)

    @fit_context(prefer_skip_nested_validation=True)
    def _learn(self, X, y, groups: Factors | int | None) -> Self:
        """Learn from all documents; callbacks are those of `_with_checkpoints`."""
        n_labels = len(groups.codes) if isinstance(groups, Factors) else None
        further = self._further(X, None, groups, in_fit=True)
        return self._fit(X, y, further, n_labels=n_labels)

    def fit_transform(  # type: ignore[override]
        self, X: MatrixLike, y: object = None, *, groups: ArrayLike | int | None = None
    ) -> np.ndarray | DaskArray:
        """Learn from all documents, and infer their topic proportions.

        Parameters
        ----------
        X, y, groups : documents in blocks, None, array-like
            As in `fit`.

        Returns
        -------
        doc_topic_distr : {ndarray, dask.array.Array} of shape \
                (n_samples, n_components_)
            What `transform` returns.
        """
        self.fit(X, y, groups=groups)
        labels = None if isinstance(groups, Integral) else groups
        return self.transform(X, groups=labels)

    def partial_fit(  # type: ignore[override]
        self, X: MatrixLike, y: object = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Learn from a chunk of a stream, which travels to this process.

        The documents that a stream keeps are here, and are learned again with each
        chunk, which takes most of the time. So this is `partial_fit` of `skbnp.HDP`,
        of which blocks are read where they are.

        Parameters
        ----------
        X : array-like, or documents in blocks as in `fit`
            Counts of the chunk; rows are documents.
        y : None
            Ignored, but handed on to callbacks.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `fit`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        if _inputs.is_frame(X):
            X = X.compute()
        elif _inputs.is_lazy(X):
            rows = [
                _inputs.read_block(*block)[0]
                for block in _inputs.computed(_inputs.blocks_of(X))
            ]
            X = _inputs.stacked([block for block in rows if block is not None])
        local = self._local().set_params(n_jobs=self.n_jobs)
        try:
            local.partial_fit(X, y, groups=groups)
        finally:
            given = local.get_params(deep=False)
            for name, value in vars(local).items():
                if name not in given:
                    setattr(self, name, value)
        return self

    def _check_groups(self, X, groups, *, in_fit=False) -> Factors | None:
        """Check labels of documents, of which not all sizes of blocks are known."""
        if _inputs.is_lazy(X) or isinstance(groups, Factors):
            if groups is not None:
                self._check_has_groups()
            return check_factors(groups)
        return super()._check_groups(X, groups, in_fit=in_fit)

    def _labelled(self, X, sample_weight, executor):
        """Return topics of the documents in the session, and their rows."""
        blocks = self._session.descriptions
        shards = _shards(self._session, executor.map)
        documents, rows = hdp_shards.fold_in_shards(shards, self._posterior)
        first = np.cumsum([0, *(block.n_rows for block in blocks)])[:-1]
        begun = first[[block.sizes.get(DOCUMENTS, 0) > 0 for block in blocks]]
        pairs = zip(begun, rows, strict=True)
        return documents, np.concatenate([begin + own for begin, own in pairs])

    def _make_model(self):
        """Return the model; raise for settings that need a cache of all documents."""
        if self.learning_method == "memoized":
            raise ValueError(
                'learning_method="memoized" remembers each document, which shards do '
                'not: use "online" or "batch".'
            )
        if self._plan.is_printed:
            raise ValueError(
                'SplitMerge(algorithm="paper") needs whole minibatches with the '
                "topics of their words, which shards do not send: use skbnp.HDP."
            )
        return super()._make_model()

    def _read(  # type: ignore[override]
        self, X, *, reset: bool, method: str, n_labels: int | None = None
    ) -> ShardedDocuments:
        """Open a session of documents; check features and counts."""
        session = self._open(X, None, read_counts)
        n_rows = sum(one.n_rows for one in session.descriptions)
        if n_labels not in (None, n_rows):
            raise ValueError(
                f"groups must have a label for each of {n_rows} documents, got "
                f"{n_labels}."
            )
        if reset:
            names = feature_names_of(X._meta) if _inputs.is_frame(X) else None
            self._resolve_known(session.n_features, names, may_come=False)
        self._check_features(session, X, reset=reset)
        survey = hdp_shards.Survey.of(_shards(session, map))
        self._warn_of(
            survey.counts, survey.scales, survey.words, in_fit=True, is_mended=False
        )
        return ShardedDocuments(session, survey)

    def _corpus(
        self, rows: ShardedDocuments, seed_entropy: int
    ) -> hdp_shards.ShardCorpus:
        survey, (n_docs, _) = rows.survey, rows.shape
        fixed = None if isinstance(self.batch_size, str) else self.batch_size
        least = self._batch_size_of(survey.n_tokens, n_docs)
        n_groups = self._n_groups(len(survey.n_docs))
        cut = hdp_shards.n_blocks(n_docs, fixed, least, n_groups)
        return hdp_shards.ShardCorpus.of(survey, seed_entropy, cut)

    def _n_groups(self, n_shards: int) -> int:
        """Number of rounds that update a block of each shard."""
        return -(-n_shards // (self.shards_per_round or max(n_shards, 1))) or 1

    def _around(self, posterior, rows: ShardedDocuments, executor):
        """Return what a learner has of rows and threads: the corpus in shards."""
        survey = replace(rows.survey, shards=_shards(rows.session, executor.map))
        rows = replace(rows, survey=survey)
        return (*super()._around(posterior, rows, executor), survey.shards)

    def _hold_out(self, corpus, seed_entropy):
        return corpus.hold_out(0)

    def _is_sampled(self, corpus):
        return False  # as below

    def _splits(self, corpus, posterior):
        return []  # a corpus on a cluster is large

    def _documents(self, corpus, goes_on):
        """Return the document weights by block in running averages."""
        if self._plan.is_collapsed:
            return hdp_shards.BlockDocumentWeights(corpus.sizes.size, float(goes_on))
        return NOTHING

    def _cache(self, warm_up, documents):
        return RunningAverage(documents)

    def _schedule(self, posterior, corpus, **changes):
        """Return the schedule of rounds over blocks of shards."""
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
        return hdp_shards.BlockSchedule(corpus.sizes, n_groups, steps)

    def _fit_schedule(self, posterior, corpus, n_forgetting=np.inf):
        if self.learning_method == "batch":
            return BatchSchedule(hdp_shards.parts_of(corpus.sizes))
        return super()._fit_schedule(posterior, corpus, n_forgetting)

    # -- evaluation: lazy where rows are ----------------------------------------------

    def transform(  # type: ignore[override]
        self, X: MatrixLike, *, groups: ArrayLike | None = None
    ) -> np.ndarray | DaskArray:
        """Infer the topic proportions of documents.

        Parameters
        ----------
        X : array-like, or documents in blocks as in `fit`
            Counts; rows are documents.
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `fit`; blocks must have known sizes.

        Returns
        -------
        doc_topic_distr : {ndarray, dask.array.Array} of shape \
                (n_samples, n_components_)
            Expected proportions; rows sum to one; lazy where `X` is, with blocks that
            are sparse if `sparse_output`.
        """
        if not _inputs.is_lazy(X):
            return super().transform(X, groups=groups)
        factors = self._check_known_groups(X, groups)
        return self._lazy_rows(X, factors, _transform, _base.no_shares)

    def score(  # type: ignore[override]
        self,
        X: MatrixLike,
        y: object = None,
        *,
        repeats: bool = True,
        groups: ArrayLike | None = None,
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
        groups : array-like, (n_samples,) or (n_samples, n_factors), default=None
            Labels of the documents as in `transform`.

        Returns
        -------
        score : float or dask.array.Array of shape ()
            Nats per held-out token; 0.0 if no token can be scored; lazy where `X` is.
        """
        if not _inputs.is_lazy(X):
            return super().score(X, y, repeats=repeats, groups=groups)
        factors = self._check_known_groups(X, groups)
        return self._lazy_mean(X, factors, partial(_score, repeats=bool(repeats)))


def check_factors(groups: Any) -> Factors | None:
    """Check labels of groups, however many there are."""
    if groups is None or isinstance(groups, Factors):
        return groups
    return check_groups(groups, None)


def _shards(session: _base.Session, run: Run) -> Shards:
    return session.shards(DOCUMENTS, run, is_lasting=True)


def _transform(local: LocalHDP, X: MatrixLike, labels: _inputs.Labels) -> np.ndarray:
    counts, dtype = local._check_counts(X, "transform")
    return local._proportions(*local._doc_topics(counts, labels), dtype)


def _score(
    local: LocalHDP, X: MatrixLike, labels: _inputs.Labels, *, repeats: bool
) -> tuple[float, float]:
    """Sum of the log probabilities of held-out tokens, and their number."""
    counts, _ = local._check_counts(X, "score")
    observed, held_out = split_tokens(counts)
    with Executor(1) as executor:
        predictor = local._predictor(labels)
        predictor = replace(predictor, repeats=repeats)
        total = predictor.log_likelihood(observed, held_out, executor)
    return float(total), float(held_out.sum())
