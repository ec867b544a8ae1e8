"""The checkpoint of a fit: a folder with one file per binary problem, and one file that identifies the fit.

The file of a binary problem holds its run while it is being solved, and its model afterwards. When the same fit is
started again, it continues the runs and uses the models as they are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin.engine.checkpoint import EVERY_SECONDS, WORTH_SAVING, Checkpoint
from maxmargin.engine.checkpoint_file import CheckpointError, remove_checkpoint
from maxmargin.engine.signature import Signature, signature_of
from maxmargin.estimators.binary import BinaryModel
from maxmargin.kernels.rows import KernelRows, kernel_rows
from maxmargin.problems import MarginProblem

if TYPE_CHECKING:
    from maxmargin.estimators.training_rows import RowsOfProblems

FIT = "fit.ckpt"  # the file that identifies the fit


class FitCheckpoint:
    """The checkpoints of all binary problems of a fit.

    Parameters
    ----------
    path : str or path
        The folder, which is created at the first save.
    every_seconds : float, default=10
        The minimum time between two checkpoints of a run (see :class:`maxmargin.solvers.Checkpoint`), and between two
        saves of the models found in the meantime.
    """

    def __init__(self, path: str | os.PathLike[str], every_seconds: float = EVERY_SECONDS) -> None:
        self.path, self.every_seconds = Path(path), every_seconds
        if self.path.exists() and not self.path.is_dir():
            raise CheckpointError(
                f"{path} is a file, but the checkpoint of a fit is a folder: give another path, or delete the file"
            )
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / FIT).exists():
            raise CheckpointError(f"{path} is a folder with other files; give the path of a new folder as checkpoint")
        self._lock, self._began_at = RLock(), time.perf_counter()
        self._fit = Checkpoint(self.path / FIT, every_seconds, part_of=self.path)
        self._signature: Signature = {}
        self._found: set[int] = set()  # the problems that have a model
        self._waiting: dict[int, _Ended] = {}  # models that are not saved yet
        self._with_rows: _Ended | None = None  # the last problem that was saved together with the cached rows

    @classmethod
    def of(cls, checkpoint: str | os.PathLike[str] | Checkpoint) -> FitCheckpoint:
        """Make the checkpoint in a folder, given by its path or by a Checkpoint that also says how often to save."""
        if isinstance(checkpoint, Checkpoint):
            return cls(checkpoint.path, checkpoint.every_seconds)
        return cls(checkpoint)

    def seeds(self, seeds: np.random.RandomState) -> np.random.RandomState:
        """Return the source of seeds in its state at the beginning of the fit, even if the user gave no seed."""
        began = seeds.get_state(legacy=False)
        kept = self._fit.around(lambda: began)
        if kept is None:
            return seeds
        began = kept
        again = np.random.RandomState()
        again.set_state(kept)
        return again

    def compare(self, **parts: Any) -> None:
        """Raise an error if the checkpoint is of other data or parameters."""
        self._signature = signature_of(**parts)
        self._fit.run({}, self._signature)

    def run_of(self, k: int | str, *, with_end: bool = False) -> Checkpoint:
        """Return the checkpoint of a run, such as of binary problem k.

        By default, the end of the run is not saved, because its model is.
        """
        return _RunOfProblem(self._path_of_run(k), self.every_seconds, self._begin, with_end)

    def model_of(self, k: int, problem: MarginProblem, rows: RowsOfProblems) -> BinaryModel | None:
        """Return the model of a binary problem if it was found before, and count what was read for it."""
        saved = Checkpoint(self._path_of_model(k), of_known_call=True).run({}, {})
        if saved is None:
            return None
        if saved["rows"] is not None:
            kernel_rows(problem.X).take(saved["rows"])
        rows.take_counts(problem.X, saved["counts"])
        with self._lock:
            self._found.add(k)
        model: BinaryModel = saved["model"]
        return model

    def keep(self, k: int, model: BinaryModel, problem: MarginProblem, rows: RowsOfProblems) -> None:
        """Save a new model, now or together with later ones."""
        shared = kernel_rows(problem.X) if problem.X is rows.matrix and rows.shares_cache else None
        with self._lock:
            self._found.add(k)
            self._waiting[k] = _Ended(k, replace(model, resume=None), rows.counts(problem.X), shared)
            if self._fit.due and self._fit.affords(_cached_bytes(shared)):
                self.flush(shared)

    def end(self, problems: int) -> None:
        """Save the last models, unless the fit was too short to be worth saving.

        The cached rows are saved with them if fewer than `problems` models exist, as the others will need the rows.
        """
        with self._lock:
            long = time.perf_counter() - self._began_at >= min(WORTH_SAVING, self.every_seconds)
            if self._waiting and (long or self._fit.path.exists()):
                *_, last = self._waiting.values()
                self.flush(None if len(self._found) == problems else last.shared)

    def flush(self, shared: KernelRows | None) -> None:
        """Save the models found since the last time, and the rows in the cache that problems share."""
        self._begin()
        *others, last = self._waiting.values()
        with self._fit.saving(_cached_bytes(shared)):
            for one in others:
                self._save(one, None)
            self._save(last, shared)
            if self._with_rows is not None:  # save it again without rows: the cache now holds those of the last problem
                self._save(self._with_rows, None)
            for one in self._waiting.values():
                remove_checkpoint(self._path_of_run(one.k))
        self._with_rows = None if shared is None else last
        self._waiting.clear()

    def _save(self, one: _Ended, shared: KernelRows | None) -> None:
        rows = None if shared is None else shared.kept()
        content = {"model": one.model, "counts": one.counts, "rows": rows}
        Checkpoint(self._path_of_model(one.k), of_known_call=True).save(content, {}, {})

    def _begin(self) -> None:
        """Create the folder and the file that identifies the fit, unless they exist."""
        with self._lock:
            if not self._fit.path.exists():
                self.path.mkdir(exist_ok=True)
                self._fit.save({}, {}, self._signature)

    def _path_of_run(self, k: int | str) -> Path:
        return self.path / f"{k}.run.ckpt"

    def _path_of_model(self, k: int) -> Path:
        return self.path / f"{k}.model.ckpt"


def _cached_bytes(shared: KernelRows | None) -> int:
    """Return the bytes of the rows in a cache; 0 for a cache on the workers of a cluster, which is not saved."""
    cache = None if shared is None else shared.kept().get("cache")
    return 0 if cache is None else cache["rows"].nbytes


@dataclass(frozen=True)
class _Ended:
    """A solved binary problem.

    Attributes
    ----------
    k : int
        The number of the problem.
    model : BinaryModel
        Its model.
    counts : mapping
        The counts of what was read for it.
    shared : KernelRows or None
        The matrix in whose cache later problems find the rows of this one; None if each problem has its own matrix.
    """

    k: int
    model: BinaryModel
    counts: Mapping[str, Any]
    shared: KernelRows | None


class _RunOfProblem(Checkpoint):
    """The checkpoint of a run in a folder that `begin` creates."""

    def __init__(self, path: Path, every_seconds: float, begin: Callable[[], None], with_end: bool) -> None:
        super().__init__(path, every_seconds, of_known_call=True)
        self._begin, self._with_end = begin, with_end

    def worth_saving(self, seconds: float) -> bool:
        return self._with_end and super().worth_saving(seconds)

    def save(self, *parts: Any) -> None:
        self._begin()
        super().save(*parts)
