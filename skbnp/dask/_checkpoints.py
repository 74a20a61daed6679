"""Checkpoints of fits on a cluster: the driver's state after each pass, newest two."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from skbnp.inference.monitor import Account
from skbnp.utils import archive
from skbnp.utils.plain import from_plain, to_plain

T = TypeVar("T")
#: Checkpoints that are kept.
N_KEPT = 2
#: The cure where fits share a folder.
PER_FIT = (
    "Fits of a search need a folder each: put {fit} into it, as in "
    'checkpoint_dir="fits/{fit}".'
)


class Checkpoints:
    """Checkpoint files of one fit in a folder.

    The folder is made if it does not exist; ``{fit}`` in it stands for a digest of
    `origin`: what must be equal to resume, names of parameters and data with texts
    of their values.
    """

    def __init__(self, folder: str | os.PathLike, origin: Mapping[str, str]):
        """Make the folder of this fit's checkpoints."""
        self.folder, self.origin = archive.path_of_fit(folder, origin), dict(origin)
        self._newest: Any = None
        self.folder.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Remove the checkpoints of an earlier fit."""
        for path in self._paths():
            path.unlink()

    def write(self, number: int, account: object) -> None:
        """Write the learned state after pass `number`.

        Raises ValueError if another fit has written to the folder since.
        """
        self._refuse_other()
        path = self.folder / f"pass-{number:06d}.npz"
        archive.write_archive(path, self.origin, to_plain(account))
        self._newest = archive.stamp_of(path)
        for old in self._paths()[:-N_KEPT]:
            old.unlink(missing_ok=True)

    def read(self, make: Callable[[Any], T] = from_plain) -> T | None:
        """Return what `make` makes of the newest undamaged one; None without any.

        Warns of those that are damaged.

        Raises ValueError if it is of other data or of other parameters, or if
        all are damaged.
        """
        return archive.read_newest(
            reversed(self._paths()),
            str(self.folder),
            "Use resume=False, which begins anew.",
            make=make,
            check=self._check,
        )

    def _check(self, origin: Mapping[str, str]) -> None:
        """Raise unless the origin of a checkpoint is that of this fit."""
        other = archive.differing(origin, self.origin)
        if other:
            raise ValueError(
                f"The checkpoint in {str(self.folder)!r} is of another fit, with other "
                f"{', '.join(other)}. Use resume=False, or another folder. {PER_FIT}"
            )

    def _refuse_other(self) -> None:
        """Raise if the newest checkpoint was written by another fit."""
        newest = next(reversed(self._paths()), None)
        if newest is None or archive.stamp_of(newest) == self._newest:
            return
        origin = archive.label_in(newest)
        if origin is not None and archive.differing(origin, self.origin):
            raise ValueError(
                f"{str(self.folder)!r} is written by another fit at the same time. "
                f"{PER_FIT}"
            )

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("pass-*.npz"))


class ShardRecord:
    """Checkpoints of a fit on a cluster after each pass, and resuming from them."""

    estimator = None
    account: Account | None = None
    restored: Any = None

    def __init__(self, checkpoints: Checkpoints, resumes: bool):
        self._checkpoints, self._resumes = checkpoints, resumes

    def begin(self, restore: Callable[[Account, None], Any]) -> None:
        """Restore the fit that the folder has, or clear the folder."""

        def restored(content: Any) -> tuple[Account, Any]:
            account = from_plain(content)
            return account, restore(account, None)

        read = self._checkpoints.read(restored) if self._resumes else None
        if read is None:
            self._checkpoints.clear()
        else:
            self.account, self.restored = read

    def save(
        self, n_passes: int, attributes: object, account: Callable[[], Account]
    ) -> None:
        """Write what the fit needs to resume after a pass."""
        del attributes  # follow from the rest
        self._checkpoints.write(n_passes, account())

    def end(self) -> None:
        """Do nothing: the last pass is written as all others."""
