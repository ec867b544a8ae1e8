"""The objects of parts on a cluster, which are called in tasks that Dask places, retries and recovers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import Client, Future
from distributed.scheduler import KilledWorker

from maxmargin.core import Ledger
from maxmargin.dask import worker
from maxmargin.dask.client import ClusterError, connected, finished, lost_for_good, results_of, worker_threads
from maxmargin.dask.worker import Answer, Behind, CannotLoad, Change, Compact, Packed, Request
from maxmargin.engine.parts import Scattered, SqNorms, Sums, TreeSum

if TYPE_CHECKING:
    from maxmargin.dask.rows import ClusterRows

LARGE_REQUEST = 200_000  # bytes; larger requests are sent directly to their worker and not through the scheduler
MOST_ENDED = 100  # maximum number of ended placements named in requests; workers know about older ones
SPREAD_SECONDS = 5.0  # minimum time between two checks for workers that hold no unit
MOST_TRIES = 20  # maximum number of times that one call remakes the objects of a unit after a worker was lost


@dataclass
class Units:
    """The data as futures of units of consecutive rows, each of which is on one worker.

    Attributes
    ----------
    client : Client
        The client of the cluster.
    futures : list of Future
        Futures of :class:`maxmargin.dask.worker.Unit`. If a unit is lost with a worker, Dask recomputes it from its
        source.
    slices : list of slice
        The rows of each unit.
    sources : list of list of int
        The numbers of the partitions that make up each unit.
    holders : dict
        The worker that holds each unit, as far as known; Dask corrects outdated items.
    sent_again : function of int, or None
        Remakes a unit that Dask cannot recompute, from rows in this process; returns None if the rows are not in this
        process. None if no rows are.
    ended : deque of str
        Placements whose objects are no longer needed; each request names them to the workers.
    looked : float
        The time of the last check for workers that hold no unit.
    began : float
        The time at which the user called `fit`, by `time.perf_counter`.
    """

    client: Client
    futures: list[Future]
    slices: list[slice]
    sources: list[list[int]]
    holders: dict[int, str] = field(default_factory=dict)
    sent_again: Callable[[int], Future | None] | None = None
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_ENDED))
    looked: float = field(default_factory=time.perf_counter)
    began: float = field(default_factory=time.perf_counter)

    @contextmanager
    def until_released(self) -> Iterator[None]:
        """Context of a fit; at its end, the workers' memory is freed at once, not when garbage is collected here."""
        try:
            yield
        finally:
            for future in self.futures:
                future.release()
            if self.client.status == "running":
                # The client notifies the scheduler asynchronously. The user's next computation must come after that,
                # because Dask would otherwise find known tasks that were made differently from the same keys.
                self.client.sync(asyncio.sleep, 0)

    def locate(self) -> None:
        """Wait until all units are on workers, and find out on which."""
        for _ in range(MOST_TRIES):
            if self._finished(self.futures):
                break
            self._restore()
        who = self.client.who_has(self.futures)
        self.holders = {k: who[future.key][0] for k, future in enumerate(self.futures) if who.get(future.key)}

    def ask(self, request_for: Callable[[Sequence[int], dict[int, int]], Request]) -> list[Answer]:
        """Return the answers of all units.

        `request_for` makes the request for some units of one worker. Its arguments are these units, and the units whose
        objects must be remade, each with the version from which to continue.
        """
        if self.holders and time.perf_counter() - self.looked >= SPREAD_SECONDS:
            self._spread()
        answers: dict[int, Answer] = {}
        behind: dict[int, int] = {}
        for _ in range(MOST_TRIES):
            left = [k for k in range(len(self.futures)) if k not in answers]
            if not left:
                return [answers[k] for k in range(len(self.futures))]
            if not self.holders:
                self.locate()
            shares: dict[str, list[int]] = {}
            for k in left:
                shares.setdefault(self.holders.get(k, ""), []).append(k)
            tasks = {self._submit(request_for(own, behind), own, address): own for address, own in shares.items()}
            if not self._finished(list(tasks)):
                self._gather({task: own for task, own in tasks.items() if task.status == "error"})
                self._restore()
                self.holders = {}
                continue
            for own, results in zip(tasks.values(), self._gather(tasks), strict=True):
                for k, answer in zip(own, results, strict=True):
                    if isinstance(answer, Behind):
                        behind[k] = answer.version
                    else:
                        answers[k] = answer
            if any(k not in answers and self._moved(k) for k in left):
                self.holders = {}
        raise ClusterError(
            f"{self._partitions(left)} of X were lost with their workers {MOST_TRIES} times in one call; the workers "
            "may need more memory, or X smaller partitions"
        )

    def _partitions(self, units: Sequence[int]) -> str:
        """Name the partitions that make up some units, for errors."""
        parts = sorted({part for k in units for part in self.sources[k]})
        few = ", ".join(str(part) for part in parts[:10]) + (", ..." if len(parts) > 10 else "")
        return f"partition{'s' if len(parts) > 1 else ''} {few}"

    def _spread(self) -> None:
        """Move units to workers that hold none, such as new or restarted workers, if other workers hold several.

        The objects of these units are remade there, which takes about as long as all their calls so far.
        """
        self.looked = time.perf_counter()
        threads = worker_threads(self.client)
        held = {address: [k for k, holder in self.holders.items() if holder == address] for address in threads}
        if all(held.values()):
            return

        def load(address: str, more: int = 0) -> float:
            return (len(held[address]) + more) / threads[address]

        while True:
            most, least = max(threads, key=load), min(threads, key=load)
            if load(least, 1) >= load(most):
                return
            k = held[most].pop()
            held[least].append(k)
            near = {"workers": [least], "allow_other_workers": True}
            self.futures[k], self.holders[k] = (
                self.client.submit(worker.moved, self.futures[k], pure=False, **near),
                least,
            )

    def _moved(self, k: int) -> bool:
        """Whether a unit is no longer on the worker that held it."""
        return self.holders.get(k) not in self.client.who_has([self.futures[k]])[self.futures[k].key]

    def _submit(self, request: Request, own: Sequence[int], address: str) -> Future:
        where = {"workers": [address], "allow_other_workers": True} if address else {}
        packed = Packed.of(request)
        sent: Any = packed
        if packed.nbytes > LARGE_REQUEST and address in worker_threads(self.client):
            sent = self.client.scatter(packed, workers=[address], hash=False)
        name = f"maxmargin-{request.method}-{uuid4().hex}"
        return self.client.submit(worker.call, sent, [self.futures[k] for k in own], key=name, pure=False, **where)

    def _gather(self, tasks: dict[Future, list[int]]) -> list[list[Answer | Behind]]:
        try:
            answers: list[list[Answer | Behind]] = results_of(self.client, list(tasks))
        except KilledWorker as error:
            units = [k for task, own in tasks.items() if task.status == "error" for k in own]
            raise ClusterError(
                f"the workers that worked on {self._partitions(units)} of X were lost again and again: {error}. A "
                "worker that needs more memory than it may take is killed: give the workers more, or make the "
                "partitions smaller"
            ) from error
        except CannotLoad as error:
            raise ClusterError(
                f"a worker cannot load what it was sent ({error}). A function, such as a kernel, must be defined in "
                "the script itself, or in a module that the workers can import, for example after "
                "client.upload_file('module.py')"
            ) from error
        except Exception:
            for k, future in enumerate(self.futures):
                if future.status == "error":
                    self._raise_lost(k)
            raise
        return answers

    def _finished(self, tasks: list[Future]) -> bool:
        """Wait for tasks; return False if what they need was lost."""
        return finished(self.client, tasks)

    def _restore(self) -> None:
        """Resend units that Dask cannot recompute; raise an error if their rows are not in this process either."""
        for k in lost_for_good(self.client, self.futures):
            again = None if self.sent_again is None else self.sent_again(k)
            if again is None:
                self._raise_lost(k)
            else:
                self.futures[k] = again

    def _raise_lost(self, k: int) -> None:
        future, parts = self.futures[k], self.sources[k]
        which = f"partition {parts[0]}" if len(parts) == 1 else f"one of the partitions {parts[0]} to {parts[-1]}"
        if future.status == "error":
            error = future.exception()
            raise ClusterError(f"{which} of X could not be read: {type(error).__name__}: {error}") from error
        raise ClusterError(
            f"{which} of X was lost with its worker, and Dask does not know where it came from ({future.status}): give "
            "data that can be read again, such as a dask array of files, and not futures of scattered arrays"
        )


@dataclass
class ClusterParts:
    """The objects of all parts, on the workers that hold their rows; see :class:`maxmargin.engine.parts.Parts`.

    Attributes
    ----------
    rows : ClusterRows
        The rows.
    per_unit : bool
        Whether there is one object per unit.
    log : list of Change
        The calls that made the objects and have changed them since; lost objects are remade from this log.
    placement : str
        The name of these objects on the workers.
    """

    rows: ClusterRows
    per_unit: bool
    log: list[Change]
    placement: str = field(default_factory=lambda: uuid4().hex)

    def attach(self) -> None:
        """Rename these objects after a checkpoint was restored: they are not those of the lost run."""
        self.placement = uuid4().hex

    def update(self, method: str, *args: Any) -> Sums:
        answers = self._ask(method, args, changes=True, summed=True)
        self.log.append(Change(method, args))
        return _sum(answers)

    def total(self, method: str, *args: Any) -> Sums:
        return _sum(self._ask(method, args, changes=False, summed=True))

    def collect(self, method: str, *args: Any) -> list[Any]:
        return [value for answer in self._ask(method, args, changes=False, summed=False) for value in answer.value]

    def _ask(self, method: str, args: tuple[Any, ...], *, changes: bool, summed: bool) -> list[Answer]:
        units, version = self.rows.units, len(self.log)
        plain = Request(self.placement, tuple(units.ended), self.per_unit, version, changes, summed, method, (), (), ())

        def request_for(own: Sequence[int], behind: dict[int, int]) -> Request:
            where = [units.slices[k] for k in own]
            return replace(
                plain,
                args=[_cut(args, rows) for rows in where],
                since=[behind.get(k, version) for k in own],
                missing=[
                    [Change(change.method, _cut(change.args, rows)) for change in self.log[behind.get(k, version) :]]
                    for k, rows in zip(own, where, strict=True)
                ],
            )

        with connected(units.client):
            answers = units.ask(request_for)
        self.rows.count_reads(answers)
        return answers

    def __del__(self) -> None:
        self.rows.units.ended.append(self.placement)


def _sum(answers: Sequence[Answer]) -> Sums:
    tree = TreeSum()
    for answer in answers:
        tree.merge(answer.value)
    return tree.total()


def _cut(args: tuple[Any, ...], rows: slice) -> tuple[Any, ...]:
    """Return the arguments for the unit with these rows."""

    def cut(item: Any) -> Any:
        if isinstance(item, SqNorms):
            return worker.OwnSqNorms()
        return Compact.of(item.vector[rows]) if isinstance(item, Scattered) else item

    return tuple(cut(item) for item in args)


def add_reads(ledger: Ledger, answers: Sequence[Answer]) -> None:
    """Add what the workers have read for these answers to the ledger."""
    ledger.add(
        worker.new_ledger(sum(answer.entries_read for answer in answers), sum(answer.dense_count for answer in answers))
    )
