"""Runs that survive a crash: their state is saved at intervals, and the same call goes on from there.

A run that goes on comes to the same bits as one that was never interrupted. So everything that decides them is saved:
the state of the solver, the random generator, what the loop knows, what the problem has computed from the data, the
counts of the ledger, and with a kernel the rows that are in the cache.
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

EVERY_SECONDS = 10.0  # the time between two checkpoints, at least: so much work may be lost
LARGEST_SHARE = 0.02  # of the time of a run that saving it may take: the next checkpoint waits until it is less
# Bytes per second that a save is expected to write where there was none as large, as a disk does that others write to
# as well: 200 MB took 4 to 8 s beside other work. On a faster disk the first save comes later than it could.
EXPECTED_RATE = 50e6
WORTH_SAVING = 1.0  # seconds: the end of a shorter run is not saved, as the same call comes to it as fast

T = TypeVar("T")


def refuse_unless_writable(path: Path) -> None:
    """Refuse the path of a checkpoint that could not be written: that must not be found out after hours of work."""
    folder = path if path.is_dir() else path.absolute().parent  # the checkpoint of a fit is a folder itself
    if not folder.is_dir():
        raise CheckpointError(f"cannot write the checkpoint {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise CheckpointError(f"cannot write the checkpoint {path}: no permission to write to the folder {folder}")


class Checkpoint:
    """The file that a run is saved to, and when.

    Parameters
    ----------
    path : str or path
        The file.
    every_seconds : float, default=10
        The time between two checkpoints, at least. It is longer where saving takes more than 2 % of the time of a run;
        before the first one, that is expected from its size.
    of_known_call : bool
        Whether somebody else compares data and parameters with those that were saved.
    part_of : path or None
        The folder that the file is a part of, which messages name in its place.

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
        self._found: tuple[dict[str, Any], list[NDArray[Any]]] | None = None  # the file, until its run is gone on with
        self._saved_at, self._took, self._size = time.perf_counter(), 0.0, 0  # the last save: when, seconds, bytes
        self._wait = 0.0  # seconds from there to the next, at least, by the share that saving may take

    @classmethod
    def of(cls, checkpoint: str | os.PathLike[str] | Checkpoint) -> Checkpoint:
        """The checkpoint at a path; one of this class is returned as it is."""
        return checkpoint if isinstance(checkpoint, Checkpoint) else cls(checkpoint)

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.perf_counter() - self._saved_at >= max(self.every_seconds, self._wait)

    def affords(self, size: int) -> bool:
        """Whether it is time to save so many bytes; if they are expected to take too long, no save is due before."""
        expected = self._took + max(0, size - self._size) / EXPECTED_RATE
        self._wait = expected / LARGEST_SHARE
        return time.perf_counter() - self._saved_at >= self._wait

    def worth_saving(self, seconds: float) -> bool:
        """Whether the end of a run that took so many seconds is saved; that of one among several, when it is due."""
        if self._around is not None:
            return self.due
        return seconds >= min(WORTH_SAVING, self.every_seconds) or self.path.exists()

    def around(self, value: Callable[[], T], problem: Problem | None = None) -> T | None:
        """Say what a loop around several runs keeps while each of them is saved; return what it kept, if it is there.

        Parameters
        ----------
        value : callable
            Gives what the loop keeps, as of the beginning of the present run.
        problem : Problem or None
            What the loop is given.
        """
        given = {} if problem is None else given_with(problem)
        self._around, self._found = (value, given), self._read()
        if self._found is None:
            return None
        kept: T = self._restored(self._found, "around", given, {})
        return kept

    def run(self, given: Mapping[str, object], signature: Signature) -> dict[str, Any] | None:
        """The parts of the run that was saved; None where there is none.

        In a loop around several runs, it is the first one that goes on, and the others are new.
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
            raise CheckpointError(f"{self._named} is of another kind of run: delete it or give another path")
        saved = content[part]
        self._refuse_other(content["library"], saved["signature"], signature)
        try:
            return Restored(given, arrays[slice(*saved["arrays"])]).value(saved["tree"])
        except CannotKeep as error:
            raise CheckpointError(f"{self._named} cannot be gone on from: {error}") from error

    def _refuse_other(self, library: str, written: Signature, here: Signature) -> None:
        if library != __version__:
            raise CheckpointError(
                f"{self._named} was written by maxmargin {library}, this is {__version__}, whose solvers may "
                "take other steps: go on with that version, delete the checkpoint or give another path"
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
        """Write down a run, and the loop around it.

        A save that can wait is put off while writing so many bytes would take more than its share of the time.
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
        """What is done inside the `with` block counts as saving: the longer it takes, the later the next one is due.

        Parameters
        ----------
        size : int
            The bytes that are saved.
        since : float or None
            When saving began, by `time.perf_counter`; None: now.
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
        Where it is saved, and when.
    problem, solver, rng
        What the run is given.
    random_state : int, Generator or None
        What the generator was made of. Where it is None nobody can give the same one again: then any is accepted.
    rules : object
        Whatever else decides the way of the run.
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
        """What was saved of the run: a `result`, or the parts of a run to go on with; None where nothing was.

        The random generator, the ledger, and what problem and data remember are set to what they were then.
        """
        saved = self.checkpoint.run(self.given, self.signature)
        if saved is None:
            return None
        self.rng.bit_generator.state = saved.pop("rng")
        vars(self.problem).update(saved.pop("problem"))
        remembered = saved.pop("X")
        if isinstance(self.problem.X, Remembers):
            self.problem.X.take(remembered)
        self.problem.ledger.take(saved.pop("ledger"))  # the last one: to remember may have taken reading
        return saved

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self.checkpoint.due

    def save(self, *, can_wait: bool = False, **parts: Any) -> None:
        """Save these parts of a run, and what it was given as far as that changes; see `Checkpoint.save`."""
        X = self.problem.X
        self._save(parts, X.kept() if isinstance(X, Remembers) else {}, can_wait)

    def save_end(self, result: Result) -> None:
        """Save the result of a run that has ended, without caches: nobody goes on from there to the same bits."""
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
    """The objects that a run is given with a problem, by name: the data, and what the problem is made of."""
    functions = {name: value for name, value in vars(problem).items() if callable(value)}
    parts = {f"problem.{name}": of for name, of in (_public(problem) | functions).items() if type(of) not in PLAIN}
    return {**parts, "problem": problem, "X": problem.X, "ledger": problem.ledger}


def _public(problem: Problem) -> dict[str, Any]:
    return {name: value for name, value in vars(problem).items() if not name.startswith("_") and name != "X"}
