"""Runs that survive a crash: their state is saved at intervals, and the same call continues from there.

A run that continues reaches the same bits as one that was never interrupted. So everything that decides the bits is
saved: the state of the solver, the random generator, the state of the loop, what the problem has computed from the
data, the counts of the ledger, and with a kernel the rows in the cache.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from maxmargin import __version__
from maxmargin.data.atomic import remove_temporary_files
from maxmargin.engine.checkpoint_file import CheckpointError, read_checkpoint, write_checkpoint
from maxmargin.engine.problem import Problem
from maxmargin.engine.result import Result, Resume
from maxmargin.engine.signature import Signature, differences, signature_of
from maxmargin.engine.snapshot import PLAIN, CannotKeep, HoldsCache, Remembers, Restored, Snapshot
from maxmargin.engine.solver import AnySolver

EVERY_SECONDS = 10.0  # shortest time between two checkpoints, in seconds: this much work may be lost
LARGEST_SHARE = 0.02  # largest share of a run's time that saving may take; the next checkpoint waits accordingly
# Bytes per second that a save is expected to write if no save was as large before. This is the rate of a busy disk:
# 200 MB took 4 to 8 s while other programs were writing. On a faster disk, the first save is later than it could be.
EXPECTED_RATE = 50e6
WORTH_SAVING = 1.0  # seconds; the end of a shorter run is not saved, because repeating the run is as fast

T = TypeVar("T")


def refuse_unless_writable(path: Path) -> None:
    """Refuse the path of a checkpoint that could not be written, before hours of work are lost."""
    folder = path if path.is_dir() else path.absolute().parent  # the checkpoint of a fit is a folder itself
    if not folder.is_dir():
        raise CheckpointError(f"cannot write the checkpoint {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise CheckpointError(f"cannot write the checkpoint {path}: no permission to write to the folder {folder}")


class Checkpoint:
    """The file to which a run is saved, and how often.

    Parameters
    ----------
    path : str or path
        The file.
    every_seconds : float, default=10
        The shortest time between two checkpoints, in seconds. It is longer if saving would take more than 2 % of the
        time of the run; the duration of the first save is estimated from its size.
    of_known_call : bool
        Whether the caller itself compares data and parameters with the saved ones.
    part_of : path or None
        The folder to which the file belongs; messages name the folder instead of the file.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from maxmargin.problems import RegularizedSVM
    >>> from maxmargin.solvers import Checkpoint, CheckpointError, Sdca, solve
    >>> y = np.where(np.arange(50) % 2, 1.0, -1.0)
    >>> X = np.random.default_rng(0).normal(size=(50, 3)) + y[:, None]
    >>> path = tempfile.mkdtemp() + "/run.ckpt"
    >>> for _ in range(2):  # the second call finds the end of the first
    ...     checkpoint = Checkpoint(path, every_seconds=0)
    ...     result = solve(RegularizedSVM(X, y), Sdca(), random_state=0, checkpoint=checkpoint)
    >>> result.status
    'tol'
    >>> try:
    ...     solve(RegularizedSVM(X, y, C=2.0), Sdca(), random_state=0, checkpoint=path)
    ... except CheckpointError as error:
    ...     print(str(error).partition("was ")[2])
    written for problem.C=1.0, this call has problem.C=2.0: delete the checkpoint or give another path
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        every_seconds: float = EVERY_SECONDS,
        *,
        of_known_call: bool = False,
        part_of: str | os.PathLike[str] | None = None,
    ) -> None:
        if not every_seconds >= 0:
            raise ValueError(f"every_seconds must be a number of at least 0; got {every_seconds!r}")
        self.path, self.every_seconds, self.of_known_call = Path(path), float(every_seconds), of_known_call
        self._named = self.path if part_of is None else Path(part_of)
        if not of_known_call:
            refuse_unless_writable(self._named)
        self._around: tuple[Callable[[], Any], Mapping[str, object]] | None = None
        # The content of the file, until its run is continued.
        self._found: tuple[dict[str, Any], list[NDArray[Any]]] | None = None
        # The last save: when it ended, how many seconds it took, how many bytes it wrote.
        self._saved_at, self._took, self._size = time.perf_counter(), 0.0, 0
        self._wait = 0.0  # seconds from the last save to the next, at least, by LARGEST_SHARE

    @classmethod
    def of(cls, checkpoint: str | os.PathLike[str] | Checkpoint) -> Checkpoint:
        """The checkpoint at a path; a `Checkpoint` is returned as it is."""
        return checkpoint if isinstance(checkpoint, Checkpoint) else cls(checkpoint)

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.perf_counter() - self._saved_at >= max(self.every_seconds, self._wait)

    def affords(self, size: int) -> bool:
        """Whether it is time to save `size` bytes; if saving is expected to take too long, `due` waits as well."""
        expected = self._took + max(0, size - self._size) / EXPECTED_RATE
        self._wait = expected / LARGEST_SHARE
        return time.perf_counter() - self._saved_at >= self._wait

    def worth_saving(self, seconds: float) -> bool:
        """Whether to save the end of a run that took `seconds`; in a loop around runs, whether a save is due."""
        if self._around is not None:
            return self.due
        return seconds >= min(WORTH_SAVING, self.every_seconds) or self.path.exists()

    def around(self, value: Callable[[], T], problem: Problem | None = None) -> T | None:
        """State what a loop around several runs saves with each of them; return what an earlier loop saved, if any.

        Parameters
        ----------
        value : callable
            Returns what the loop saves, as of the beginning of the current run.
        problem : Problem or None
            The problem that the loop is given.
        """
        given = {} if problem is None else given_with(problem)
        self._around, self._found = (value, given), self._read()
        if self._found is None:
            return None
        kept: T = self._restored(self._found, "around", given, {})
        return kept

    def run(self, given: Mapping[str, object], signature: Signature) -> dict[str, Any] | None:
        """The parts of the run that was saved; None if nothing was saved.

        In a loop around several runs, the first run continues from the checkpoint, and the others start anew.
        """
        found, self._found = self._read() if self._around is None else self._found, None
        return None if found is None else self._restored(found, "run", given, signature)

    def _read(self) -> tuple[dict[str, Any], list[NDArray[Any]]] | None:
        remove_temporary_files(self.path)
        return read_checkpoint(self.path) if self.path.exists() else None

    def _restored(
        self,
        found: tuple[dict[str, Any], list[NDArray[Any]]],
        part: str,
        given: Mapping[str, object],
        signature: Signature,
    ) -> Any:
        content, arrays = found
        if part not in content:
            raise CheckpointError(f"{self._named} belongs to another kind of run: delete it or give another path")
        saved = content[part]
        self._refuse_other(content["library"], saved["signature"], signature)
        try:
            return Restored(given, arrays[slice(*saved["arrays"])]).value(saved["tree"])
        except CannotKeep as error:
            raise CheckpointError(f"{self._named} cannot be continued: {error}") from error

    def _refuse_other(self, library: str, written: Signature, here: Signature) -> None:
        if library != __version__:
            raise CheckpointError(
                f"{self._named} was written by maxmargin {library}, this is {__version__}, whose solvers may "
                "take other steps: continue with that version, delete the checkpoint or give another path"
            )
        if different := differences(written, here):
            raise CheckpointError(
                f"{self._named} was written for {'; and for '.join(different)}: "
                "delete the checkpoint or give another path"
            )

    def save(
        self,
        run: dict[str, Any],
        given: Mapping[str, object],
        signature: Signature,
        given_types: Mapping[type, str] | None = None,
        can_wait: bool = False,
    ) -> None:
        """Save a run, and the loop around it.

        With `can_wait`, the save is postponed as long as it would take more than `LARGEST_SHARE` of the time.
        """
        before = time.perf_counter()
        content: dict[str, Any] = {"library": __version__}
        arrays: list[NDArray[Any]] = []
        _write(content, arrays, "run", run, Snapshot(given, given_types), signature)
        if self._around is not None:
            value, given = self._around
            _write(content, arrays, "around", value(), Snapshot(given), {})
        size = sum(array.nbytes for array in arrays)
        if can_wait and not self.affords(size):
            return
        with self.saving(size, since=before):
            write_checkpoint(self.path, content, arrays)

    @contextmanager
    def saving(self, size: int = 0, since: float | None = None) -> Iterator[None]:
        """Count the time of the `with` block as saving: the longer it takes, the later the next save is due.

        Parameters
        ----------
        size : int
            The number of bytes that are saved.
        since : float or None
            The time when saving began, by `time.perf_counter`; None: now.
        """
        before = time.perf_counter() if since is None else since
        yield
        self._saved_at = time.perf_counter()
        self._took, self._size = self._saved_at - before, size
        self._wait = self._took / LARGEST_SHARE


def _write(
    content: dict[str, Any],
    arrays: list[NDArray[Any]],
    part: str,
    value: Any,
    shot: Snapshot,
    signature: Signature,
) -> None:
    tree = shot.plain(value, part)
    content[part] = {"signature": signature, "tree": tree, "arrays": [len(arrays), len(arrays) + len(shot.arrays)]}
    arrays += shot.arrays


class RunCheckpoint:
    """The checkpoint of one run of a solver on a problem.

    Parameters
    ----------
    checkpoint : Checkpoint
        The file, and how often to save.
    problem, solver, rng
        The arguments of the run.
    random_state : int, Generator or None
        The seed or generator from which `rng` was made. None: a later call cannot give the same one again, so that any
        generator is accepted.
    rules : object
        Everything else that decides the course of the run.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        problem: Problem,
        solver: AnySolver,
        rng: np.random.Generator,
        random_state: object,
        **rules: object,
    ) -> None:
        self.checkpoint, self.problem, self.solver, self.rng = checkpoint, problem, solver, rng
        self.given = {**given_with(problem), "rng": rng, "solver": solver}
        self.signature: Signature = {}
        if not checkpoint.of_known_call:
            self.signature = signature_of(
                solver={"name": solver.name, "parameters": solver},
                problem={"kind": type(problem).__name__, **_public(problem)},
                **rules,
                random_state=signature_of(state=rng.bit_generator.state) if random_state is rng else random_state,
                X={"shape": problem.X.shape, **(problem.X.signature() if isinstance(problem.X, Remembers) else {})},
            )

    def find(self) -> dict[str, Any] | None:
        """What was saved: the `result` of a run that has ended, or the parts of a run to continue; None if nothing was.

        The random generator, the ledger, and what problem and data remember are set to their saved states.
        """
        saved = self.checkpoint.run(self.given, self.signature)
        if saved is None:
            return None
        self.rng.bit_generator.state = saved.pop("rng")
        vars(self.problem).update(saved.pop("problem"))
        remembered = saved.pop("X")
        if isinstance(self.problem.X, Remembers):
            self.problem.X.take(remembered)
        self.problem.ledger.take(saved.pop("ledger"))  # last, because restoring the others may have read data
        return saved

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self.checkpoint.due

    def save(self, *, can_wait: bool = False, **parts: Any) -> None:
        """Save these parts of a run, and what changes in the objects that it was given; see `Checkpoint.save`."""
        X = self.problem.X
        self._save(parts, X.kept() if isinstance(X, Remembers) else {}, can_wait)

    def save_end(self, result: Result) -> None:
        """Save the result of a run that has ended, without caches: continuing it need not reach the same bits."""
        X = self.problem.X
        resume = Resume(self.solver.without_cache(result.state), self.problem)
        kept = X.kept_without_cache() if isinstance(X, HoldsCache) else X.kept() if isinstance(X, Remembers) else {}
        self._save({"result": replace(result, resume=resume)}, kept, False)

    def _save(self, parts: dict[str, Any], X: Mapping[str, Any], can_wait: bool) -> None:
        shared = {
            "rng": self.rng.bit_generator.state,
            "problem": self.problem.remembered(),
            "X": dict(X),
            "ledger": dict(self.problem.ledger.kept()),
        }
        self.checkpoint.save(parts | shared, self.given, self.signature, None, can_wait)


def given_with(problem: Problem) -> dict[str, object]:
    """The objects that a run is given with a problem, by name: the data, and the parts of the problem."""
    functions = {name: value for name, value in vars(problem).items() if callable(value)}
    parts = {f"problem.{name}": of for name, of in (_public(problem) | functions).items() if type(of) not in PLAIN}
    return {**parts, "problem": problem, "X": problem.X, "ledger": problem.ledger}


def _public(problem: Problem) -> dict[str, Any]:
    return {name: value for name, value in vars(problem).items() if not name.startswith("_") and name != "X"}
