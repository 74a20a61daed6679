"""Base of estimators on a Dask cluster: parameters, sessions, lazy evaluation."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import cleandoc
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.array import Array as DaskArray
from dask.delayed import Delayed, delayed
from distributed import Client
from sklearn.base import BaseEstimator

from skbnp.callbacks import Checkpoint
from skbnp.dask import _inputs, _shards
from skbnp.dask._inputs import Labels, Reader, RowBlock, computed, in_block, read_block
from skbnp.estimators._base import hide_fields
from skbnp.inference.executor import Run
from skbnp.inference.shards import LocalShards, Shards
from skbnp.utils import validation as valid
from skbnp.utils.archive import digest_of
from skbnp.utils.labels import Label, sort_labels
from skbnp.utils.typing import MatrixLike

# Signatures and docstrings of estimators on a cluster, from the local ones.


Kind = TypeVar("Kind")

#: The title of a section of a docstring, and the line below it.
TITLE = re.compile(r"^(\w[\w ]*)\n-+\n", re.MULTILINE)


def extended(kind: type[Kind]) -> type[Kind]:
    """Complete a class on a cluster, whose bases are the mixin and a local estimator.

    It gets the constraints of the parameters of both. Its docstring has entries of
    parameters and attributes that differ; all others are those of the bases, and its
    references are those of the local estimator.
    """
    made: Any = kind
    more, local = made.__bases__
    made._local_class = local
    made._parameter_constraints = {
        **local._parameter_constraints,
        **more._parameter_constraints,
    }
    if kind.__doc__ is not None:  # python -OO
        made.__doc__ = merged_docs(*(str(one.__doc__) for one in (local, more, kind)))
    hide_fields(kind)
    return kind


def merged_docs(*docs: str) -> str:
    """Return the last docstring, with the entries of the ones before it.

    An entry stands where it comes first, as it is written last.
    """
    sections = [_sections(text) for text in docs]
    result = dict(sections[-1])
    for title in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for one in sections:
            entries |= _entries(one.get(title, ""))
        result[title] = "\n".join(entries.values())
    result["References"] = sections[0]["References"]
    order = [title for title in sections[0] if title in result]
    parts = [
        f"{title}\n{'-' * len(title)}\n{result[title]}" for title in order if title
    ]
    return "\n\n".join([result[""], *parts]) + "\n"


def _sections(text: str) -> dict[str, str]:
    """Return the text of each section by its title, that before the first by ""."""
    parts = TITLE.split(cleandoc(text))
    texts = [part.strip("\n") for part in parts[::2]]
    return dict(zip(["", *parts[1::2]], texts, strict=True))


def _entries(section: str) -> dict[str, str]:
    """Return entries by the names that they begin with."""
    entries = re.split(r"\n(?=\S)", section) if section else []
    return {entry.partition(" : ")[0]: entry for entry in entries}


# Sessions: the rows of one fit by label, on workers or in this process.


class LocalSession:
    """Rows of a fit in this process, in the same shards as on workers.

    `read` returns rows by label, given rows and labels of a block.
    """

    def __init__(self, blocks: Sequence[RowBlock], read: Reader):
        """Read all blocks in this process."""
        self.descriptions: list[_shards.BlockDescription] = []
        self._rows: list[dict[Label, sp.csr_array]] = []
        for number, (rows, labels) in enumerate(computed(blocks)):
            with in_block(number):
                X, labels = read_block(rows, labels)
                result = {} if X is None else read(X, labels)
            self.descriptions.append(_shards.BlockDescription.of(number, X, result))
            self._rows.append(result)
        self.n_features = _shards.n_features_of(self.descriptions)
        self.order = blocks[0].order

    def shards(self, label: Label, run: Run, *, is_lasting: bool) -> Shards:
        """Return the rows of a label; `run` maps over rows in this process."""
        result = [rows[label] for rows in self._rows if label in rows]
        result = [X for X in result if X.shape[0]]
        return LocalShards(result, self.n_features, run, is_lasting=is_lasting)

    def close(self) -> None:
        """Release the rows."""


#: The rows of one fit.
Session = LocalSession | _shards.WorkerShards


def open_session(
    client: Client | None, blocks: Sequence[RowBlock], read: Reader, timeout: float
) -> Session:
    """Read all blocks on the workers of a client, or in this process without one."""
    if client is None:
        return LocalSession(blocks, read)
    if client.asynchronous:
        raise ValueError("client must be a synchronous one: fit waits for workers.")
    if client.status == "closed":
        raise ValueError("client is closed: fit needs one that is connected.")
    pool = _shards.ClientPool(client, uuid4().hex)
    workers = _shards.WorkerShards(pool, blocks, read, timeout)
    workers.load()
    return workers


def sizes_by_label(session: Session) -> dict[Label, int]:
    """Number of rows of each label, in order."""
    sizes: dict[Label, int] = {}
    for description in session.descriptions:
        for label, size in description.sizes.items():
            sizes[label] = sizes.get(label, 0) + size
    return {label: sizes[label] for label in sort_labels(sizes, session.order)}


def data_digest(session: Session) -> str:
    """Digest of the rows of a session, divided as they are."""
    return digest_of([description.digest for description in session.descriptions])


#: A function of a fitted local estimator, the rows of a block, and labels.
Evaluation = Callable[..., Any]


@dataclass(kw_only=True, eq=False, repr=False)
class ShardedMixin(BaseEstimator):
    """Base of estimators whose rows stay on the workers of a Dask cluster.

    `_local_class` is the local estimator that evaluates blocks, see `extended`.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads of this process. Workers use theirs.
    client : distributed.Client or None, default=None
        The cluster. None does the same in this process.
    checkpoint_dir : path-like or None, default=None
        A folder for the file of a :class:`skbnp.callbacks.Checkpoint` of each pass of
        `fit`. ``{fit}`` in it stands for a digest of the parameters and of `X`.
    resume : bool, default=False
        Whether `fit` goes on from the file of an unfinished fit in `checkpoint_dir`, to
        the bits of one that nothing has stopped; otherwise that file is removed.
    shards_per_round : int or None, default=None
        Shards after which an update follows; None is all. Results depend on it, and on
        how rows are cut into blocks, but not on which workers have them.
    timeout : float, default=30.0
        Seconds without a sign of life after which a worker is given up, and without any
        worker after which `fit` is.
    """

    client: Client | None = None
    checkpoint_dir: str | os.PathLike | None = None
    resume: bool = False
    shards_per_round: int | None = None
    timeout: float = 30.0

    _local_class: ClassVar[type[Any]]
    _parameter_constraints: ClassVar[dict] = {
        "client": [Client, None],
        "checkpoint_dir": [str, os.PathLike, None],
        "resume": ["boolean"],
        "shards_per_round": [valid.Interval(Integral, 1, None, closed="left"), None],
        "timeout": [valid.Interval(Real, 0, None, closed="neither")],
    }

    # -- parameters -------------------------------------------------------------------

    def __sklearn_clone__(self):
        """Clone as scikit-learn does, with the same client."""
        bare = object.__new__(type(self))
        bare.__dict__.update(self.__dict__, client=None)
        copy = super(ShardedMixin, bare).__sklearn_clone__()
        copy.client = self.client
        return copy

    def _state(self) -> dict[str, Any]:
        """Return what is saved: nothing of the cluster, which belongs to a process."""
        state = super()._state()
        state.pop("_session", None)
        folder = self.checkpoint_dir and str(self.checkpoint_dir)
        return state | {"client": None, "checkpoint_dir": folder}

    # -- learning ---------------------------------------------------------------------

    def _open(self, X: MatrixLike, labels: Labels, read: _inputs.Reader) -> Session:
        """Read blocks on workers, or in this process, until `_close`."""
        self._close()
        blocks = _inputs.blocks_of(X, labels)
        self._session = open_session(self.client, blocks, read, self.timeout)
        return self._session

    @contextmanager
    def _with_checkpoints(self) -> Iterator[None]:
        """Write the files that `checkpoint_dir` asks for; release the rows at last."""
        self._validate_params()
        callbacks = getattr(self, "_skl_callbacks", [])
        if self.resume and self.checkpoint_dir is None:
            raise ValueError("resume=True needs a checkpoint_dir.")
        if self.checkpoint_dir is not None:
            checkpoint = Checkpoint(Path(self.checkpoint_dir) / "fit.skbnp")
            if not self.resume:
                checkpoint.file.path.unlink(missing_ok=True)
            self.set_callbacks(*callbacks, checkpoint)
        try:
            yield
        finally:
            self._close()
            if self.checkpoint_dir is not None:
                self.set_callbacks(*callbacks)

    def _close(self) -> None:
        """Release the rows of the session."""
        session = self.__dict__.pop("_session", None)
        if session is not None:
            session.close()

    def _check_features(self, session: Session, X: MatrixLike, *, reset: bool) -> None:
        """Check the number and names of features of all blocks."""
        if _inputs.is_frame(X):
            meta = valid.with_names(X._meta, None if reset else self)
            if list(map(str, meta.columns)) != list(map(str, X._meta.columns)):
                raise ValueError(
                    "X must have its columns in the order of their numbers, as in the "
                    "fit: use X[sorted(X.columns)]."
                )
            valid.validate_data(self, meta, reset=reset, skip_check_array=True)
        elif reset:
            self._forget("n_features_in_", "feature_names_in_")
            self.n_features_in_ = session.n_features
        elif session.n_features != self.n_features_in_:
            raise ValueError(
                f"X has {session.n_features} features, but {type(self).__name__} is "
                f"expecting {self.n_features_in_} features as input."
            )

    # -- evaluation -------------------------------------------------------------------

    def _local(self) -> BaseEstimator:
        """Return a local estimator with the learned state, to evaluate blocks."""
        names = self._local_class._get_param_names()
        local = self._local_class(**{name: getattr(self, name) for name in names})
        params = self.get_params(deep=False)
        learned = {k: v for k, v in vars(self).items() if k not in params}
        learned.pop("_session", None)
        vars(local).update(learned, n_jobs=1)
        return local

    def _blockwise(
        self, X: MatrixLike, labels: Labels, function: Evaluation, of_no_rows: Any
    ) -> Iterator[Delayed]:
        """Yield `function` of the local estimator, the rows of a block and labels.

        Of a block without rows, `of_no_rows`.
        """
        local = delayed(self._local(), name=f"local-{uuid4().hex}", traverse=False)
        evaluate = delayed(_evaluated, pure=False)
        for number, block in enumerate(self._resolved(_inputs.blocks_of(X, labels))):
            given = number, block.rows, block.labels
            yield evaluate(function, of_no_rows, local, *given)

    def _resolved(self, blocks: list[_inputs.RowBlock]) -> list[_inputs.RowBlock]:
        """Return blocks as they are evaluated."""
        return blocks

    def _row_totals(self, X: MatrixLike) -> MatrixLike:
        """Sum the magnitudes of each row, (n_samples,); lazy where `X` is."""
        if not _inputs.is_lazy(X):
            return valid.row_totals(X)
        return self._lazy_rows(
            X, None, lambda local, X, labels: valid.row_totals(X), lambda _: np.empty(0)
        )

    def _lazy_mean(
        self, X: MatrixLike, labels: Labels, function: Evaluation
    ) -> DaskArray:
        """Return the mean score of blocks, by their weights, as a lazy number."""
        valid.check_is_fitted(self)
        parts = list(self._blockwise(X, labels, function, (0.0, 0.0)))
        return da.from_delayed(delayed(_mean)(parts), (), dtype=np.float64)

    def _lazy_rows(
        self,
        X: MatrixLike,
        labels: Labels,
        function: Evaluation,
        of_no_rows: Callable[[Any], MatrixLike],
    ) -> DaskArray:
        """Return the rows that a function computes of blocks, as a lazy array."""
        valid.check_is_fitted(self)
        meta = of_no_rows(self)
        parts = list(self._blockwise(X, labels, function, meta))
        sizes = [np.nan] * len(parts)
        if isinstance(X, DaskArray):
            sizes = list(X.chunks[0])
        return da.concatenate(
            [
                da.from_delayed(part, (size, *meta.shape[1:]), meta=meta)
                for part, size in zip(parts, sizes, strict=True)
            ],
            allow_unknown_chunksizes=True,
        )


def _mean(parts: Iterable[tuple[float, float]]) -> np.float64:
    """Divide the sum of scores by the sum of weights, (score, weight) by block."""
    scores, weights = map(sum, zip(*parts, strict=True))
    return np.float64(scores / weights if weights else 0.0)


def no_shares(estimator: Any) -> np.ndarray | sp.csr_array:
    """Return shares of topics in no rows, for the type of lazy results."""
    empty = np.empty((0, estimator.n_components_))
    return sp.csr_array(empty) if estimator.sparse_output else empty


def _evaluated(
    function: Evaluation,
    of_no_rows: Any,
    local: BaseEstimator,
    number: int,
    rows: MatrixLike,
    labels: Labels,
) -> Any:
    """Evaluate the rows of one block by the local estimator."""
    with _inputs.in_block(number):
        X, labels = _inputs.read_block(rows, labels)
        return of_no_rows if X is None else function(local, X, labels)
