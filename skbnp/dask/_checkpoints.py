"""What the driver has learned, on disk, after each pass; the newest two are kept."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from skbnp.inference.monitor import Account
from skbnp.models.forms import from_plain, to_plain
from skbnp.utils.archive import read_newest, write_archive

__all__ = ["Checkpoints", "ShardRecord"]

#: Checkpoints that are kept.
N_KEPT = 2


class Checkpoints:
    """Checkpoints of one fit in a folder.

    Parameters
    ----------
    folder : path-like
        Made if it is not there.
    origin : dict
        What a fit that resumes from a checkpoint must agree in: names of what it
        depends on, with texts that tell values apart.
    """

    def __init__(self, folder: str | os.PathLike, origin: Mapping[str, str]):
        self.folder, self.origin = Path(folder), dict(origin)
        self.folder.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Begin anew."""
        for path in self._paths():
            path.unlink()
        self._tidy()

    def write(self, number: int, account: object) -> None:
        """Write what has been learned after `n_passes` passes."""
        path = self.folder / f"pass-{number:06d}.npz"
        write_archive(path, self.origin, to_plain(account))
        for old in self._paths()[:-N_KEPT]:
            old.unlink(missing_ok=True)

    def read(self) -> Any | None:
        """Return the newest whole checkpoint; None if there is none of any kind.

        Warns of those that are damaged.

        Raises
        ------
        ValueError
            If it is of other data or of other parameters, or if all are damaged.
        """
        self._tidy()
        return read_newest(
            reversed(self._paths()),
            str(self.folder),
            "Use resume=False, which begins anew.",
            make=from_plain,
            check=self._check,
        )

    def _check(self, origin: Mapping[str, str]) -> None:
        names = sorted(origin.keys() | self.origin.keys())
        other = [name for name in names if origin.get(name) != self.origin.get(name)]
        if other:
            raise ValueError(
                f"The checkpoint in {str(self.folder)!r} is of another fit, with other "
                f"{', '.join(other)}. Use resume=False, or another folder."
            )

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("pass-*.npz"))

    def _tidy(self) -> None:
        for draft in self.folder.glob("pass-*.part"):
            draft.unlink()


class ShardRecord:
    """Where a fit is written after each pass, if anywhere, and what it resumes from."""

    estimator = None

    def __init__(self, checkpoints: Checkpoints | None, account: Account | None):
        self._checkpoints, self.account = checkpoints, account

    def save(
        self, n_passes: int, attributes: object, account: Callable[[], Account]
    ) -> None:
        """Write what the fit needs to resume."""
        del attributes  # follow from the rest
        if self._checkpoints is not None:
            self._checkpoints.write(n_passes, account())

    def end(self) -> None:
        """Do nothing: the last pass is written as all others."""
