"""All handling of threads: how many to use, running tasks in them, and limiting the threads of BLAS libraries.

A fit makes many small matrix products. A BLAS library that splits them among its own threads loses more time than it
gains, because these threads wait for the next product in a busy loop and take processors from threads with work. So
each fit and each prediction runs inside :func:`limit_blas`, and :func:`run_parallel` distributes larger tasks in such a
way that results do not depend on the number of threads.
"""

from __future__ import annotations

import _thread
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from queue import SimpleQueue
from threading import Lock, RLock, get_ident, local
from typing import Any, Generic, Self, TypeVar

import numpy as np

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

# How many threads to use


LEAST_WORK = 1_000_000
"""Smallest number of multiply-adds per thread: about 0.05 ms inside a matrix product and 1 ms outside of one. Waking a
thread takes about 0.02 ms, so that the calling thread alone finishes smaller tasks sooner."""

BLAS_THREADS_FROM = 8192
"""Multiply-adds of one product up to which all BLAS libraries use only the calling thread. OpenBLAS has the lowest
limit, 9,216 for the product of a matrix with a vector."""


def thread_count(n_jobs: int | None, operations: float = math.inf) -> int:
    """How many threads to use for a fit or a prediction.

    Parameters
    ----------
    n_jobs : int or None
        A number of threads; -1 means all processors, -2 all but one, and so on, as joblib counts them. None means the
        number that `joblib.parallel_config` sets. If it sets none, None means one thread inside a worker of joblib (a
        process or a thread), and otherwise as many as the process may use: affinity, the quota of a container,
        `OMP_NUM_THREADS` and `threadpoolctl.threadpool_limits` are respected, as in scikit-learn's estimators that use
        OpenMP.
    operations : float
        The number of multiply-adds. If n_jobs is None, no more threads are used than this work pays for.

    Examples
    --------
    >>> from maxmargin.core.threads import thread_count
    >>> thread_count(1), thread_count(2), thread_count(None, operations=1000)
    (1, 2, 1)
    """
    from joblib.parallel import effective_n_jobs, get_active_backend
    from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

    if n_jobs is None:
        backend, n_jobs = get_active_backend()
        if n_jobs is None:
            if backend.nesting_level or operations < 2 * LEAST_WORK:  # the first count of processors takes 40 ms
                return 1
            return threads_for(operations, min(_openmp_effective_n_threads(), allowed_processors()))
    if n_jobs == 0:
        raise ValueError(
            "n_jobs is 0; expected a number of threads of at least 1, or -1 for all processors, -2 for all but one"
        )
    return int(effective_n_jobs(n_jobs))


def allowed_processors() -> int:
    """The processors on which the process may run now; scikit-learn and OpenMP counted them when they were loaded."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(operations: float, most: int) -> int:
    """The number of threads that pay for `operations` multiply-adds, at most `most`.

    Examples
    --------
    >>> from maxmargin.core.threads import threads_for
    >>> threads_for(1e4, 4), threads_for(2.5e6, 4), threads_for(1e9, 4)
    (1, 2, 4)
    """
    return max(1, int(min(operations / LEAST_WORK, most)))


# The BLAS library's own threads


class limit_blas:
    """A context in which no BLAS library uses more than some number of threads.

    Contexts may be nested, and several threads may be inside at once: the smallest of their limits holds. When the last
    context exits, in any thread, the setting from before the first one is restored. A limit never raises the number
    that the user has set. Entering and exiting take a few microseconds.

    Parameters
    ----------
    threads : int, default=1
        The limit.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.core.threads import limit_blas
    >>> with limit_blas():
    ...     product = np.eye(2) @ np.eye(2)  # on one thread

    It also decorates functions:

    >>> @limit_blas()
    ... def square(X):
    ...     return X.T @ X
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._entered: tuple[_Scope, ...] = ()

    def __enter__(self) -> Self:
        try:
            self._entered = tuple(scope for scope in (_process, _this_thread()) if scope.libraries)
            for scope in self._entered:
                scope.enter(id(self), self.threads)
        except BaseException:  # Ctrl-C among others
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        for scope in self._entered:
            scope.leave(id(self))
        self._entered = ()

    def __call__(self, function: Function) -> Function:
        @wraps(function)
        def limited(*args: Any, **options: Any) -> Any:
            with limit_blas(self.threads):
                return function(*args, **options)

        return limited  # type: ignore[return-value]

    # Ctrl-C may come as `__exit__` begins. The limit then ends with its object.
    __del__ = __exit__


UNFINISHED = -1  # value of `_Scope.applied` while the limit is being set, or if that was interrupted


class _Scope:
    """The BLAS libraries whose number of threads is set per process, or those per thread, with the limits in force."""

    def __init__(self, of_thread: bool) -> None:
        self.of_thread = of_thread
        self.lock = RLock()
        self.limits: dict[int, tuple[int, int]] = {}  # for each context, its limit and the thread that entered it
        self.before: list[int] = []  # the number of threads of each library before the first limit
        self.applied: int | None = None  # the smallest limit, which is now set; None without limits

    @cached_property
    def libraries(self) -> list[Any]:
        return [library for library in _blas_libraries() if _is_set_by_thread(library) == self.of_thread]

    def enter(self, context: int, threads: int) -> None:
        with self.lock:
            if self.applied is None:
                self.before = [library.get_num_threads() for library in self.libraries]
            self.limits[context] = threads, get_ident()
            self._apply()

    def leave(self, context: int) -> None:
        with self.lock:
            self.limits.pop(context, None)
            self._apply()

    def _apply(self) -> None:
        least = min([threads for threads, _ in self.limits.values()], default=None)
        if least == self.applied:
            return
        self.applied = UNFINISHED
        for library, before in zip(self.libraries, self.before, strict=True):
            _set_num_threads(library, before if least is None else min(before, least))
        self.applied = least

    def after_fork(self) -> None:
        """Drop the limits of other threads: only the thread that forked exists in the new process."""
        self.limits = {context: limit for context, limit in self.limits.items() if limit[1] == get_ident()}
        self._apply()
        self.lock.release()


WORK_SPACE = 2**27
"""Bytes that BLAS libraries may allocate for one more calling thread: OpenBLAS takes 32 or 64 MB at the first call, and
NumPy and SciPy have one library each. If OpenBLAS cannot allocate them, it ends the process."""

_found: list[Any] = []


def _ask_for_work_space() -> None:
    """Raise MemoryError if memory is too short for the work space of a BLAS library, which would end the process."""
    np.empty(WORK_SPACE, dtype=np.uint8)


def _blas_libraries() -> list[Any]:
    """All loaded BLAS libraries, including NumPy's and SciPy's; looked up once."""
    if not _found:
        from scipy.linalg.blas import dgemm  # loads SciPy's BLAS, before the look-up
        from threadpoolctl import ThreadpoolController  # which scikit-learn depends on

        _ask_for_work_space()
        square = np.ones((128, 128))
        square @ square  # makes each library allocate its work space now, while there is memory
        dgemm(1.0, square, square)
        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        _found[:] = [library for library in libraries if library.get_num_threads() is not None]
    return _found


def _is_set_by_thread(library: Any) -> bool:
    """Whether the number of threads is set per calling thread, as in an OpenBLAS that was built with OpenMP."""
    return getattr(library, "threading_layer", "") == "openmp"


def _set_num_threads(library: Any, threads: int) -> None:
    # The public method silently does nothing in any thread except the first one that called it. Here any thread may be
    # the last to exit and must then restore the number; a lock makes this safe.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_process = _Scope(of_thread=False)
_threads = local()


def _this_thread() -> _Scope:
    if not hasattr(_threads, "scope"):
        _threads.scope = _Scope(of_thread=True)
    return _threads.scope  # type: ignore[no-any-return]


# Work in several threads


def run_parallel(tasks: Sequence[Callable[[], T]], threads: int) -> list[T]:
    """The results of all tasks, in order, computed by the calling thread and up to `threads` - 1 helpers.

    The first error in any thread is raised here; tasks that were not started by then are dropped, and all others have
    ended. If helpers cannot be started for lack of memory, fewer are used. Helpers stay for the next call, limit BLAS
    libraries to one thread, and have the context variables of the caller (such as `np.errstate`).

    A task may call this function too: it then gets idle helpers of the outermost call only, so that no more threads are
    active than that call asked for.

    Parameters
    ----------
    tasks : sequence of callables
        Each is called once, without arguments.
    threads : int
        The largest number of threads, including the calling one.

    Returns
    -------
    list

    Examples
    --------
    >>> from functools import partial
    >>> from maxmargin.core.threads import run_parallel
    >>> run_parallel([partial(pow, 2, k) for k in range(4)], threads=2)
    [1, 2, 4, 8]
    """
    threads = min(threads, len(tasks))
    if threads <= 1:
        return [task() for task in tasks]
    job, tickets, outer = _Job(tasks), list[_Ticket](), _team.get()
    try:
        if outer is None:
            _team.set(_Team(threads - 1))
        _helpers.invite(job, threads - 1, tickets)
        job.work()
    finally:
        job.closed = True
        for ticket in tickets:
            _helpers.dismiss(ticket)
        _team.set(outer)
    if job.error is not None:
        raise job.error
    return [job.results[k] for k in range(len(tasks))]


def run_tiles(
    work: Callable[[Iterator[slice]], None], size: int, tile: int, *, operations: float, threads: int
) -> None:
    """Divide range(size) into tiles and process them in parallel, in as many threads as `operations` justify.

    Each thread calls `work` once, with an iterator over tiles that all threads share.
    """
    tiles = iter([slice(start, min(start + tile, size)) for start in range(0, size, tile)])
    threads = min(threads_for(operations, threads), -(-size // tile))
    run_parallel([partial(work, tiles)] * max(1, threads), threads)


class _Job(Generic[T]):
    """A queue of tasks for several threads, and their results."""

    def __init__(self, tasks: Sequence[Callable[[], T]]) -> None:
        self.waiting = iter(enumerate(tasks))
        self.taking = Lock()
        self.results: dict[int, T] = {}
        self.error: BaseException | None = None
        self.closed = False

    def work(self) -> None:
        """Run tasks until none is left, or until a task has failed in any thread."""
        try:
            while not self.closed:
                with self.taking:
                    k, task = next(self.waiting, (-1, None))
                if task is None:
                    return
                self.results[k] = task()
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self.closed = True


@dataclass
class _Team:
    """The number of helpers that an outermost call, and all calls inside of it, may still use."""

    free: int


_team: ContextVar[_Team | None] = ContextVar("_team", default=None)


class _Ticket:
    """A request for one helper to work on a job: a helper takes it, unless the caller withdraws it first.

    It is synchronised by locks alone, which allocate no memory: if a helper dies for lack of memory before it has taken
    its ticket, the caller withdraws the ticket and need not wait.
    """

    def __init__(self, job: _Job[Any], team: _Team) -> None:
        self.team = team
        self.content: tuple[_Job[Any], Context] | None = job, copy_context()
        self.taken, self.done = Lock(), Lock()
        self.done.acquire()

    def use(self) -> bool:
        """Work on the job, in a helper; returns whether the ticket was still valid."""
        if not self.taken.acquire(blocking=False):
            return False
        assert self.content is not None
        job, context = self.content
        try:
            with limit_blas():
                context.run(job.work)
        except BaseException as error:
            job.fail(error)
        finally:
            self.done.release()
        return True

    def withdraw(self) -> bool:
        """Withdraw the ticket, or wait for the helper that has taken it; returns whether no helper had."""
        unused = self.taken.acquire(blocking=False)
        if not unused:
            self.done.acquire()
        self.content = None  # a busy helper may find this ticket in the queue much later
        return unused


class _Helpers:
    """Threads that wait for tickets, because starting a new thread would take longer than a small task."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.count, self.idle = 0, 0  # the number of helpers, and of helpers without a ticket
        self.tickets: SimpleQueue[_Ticket] = SimpleQueue()

    def invite(self, job: _Job[Any], wanted: int, tickets: list[_Ticket]) -> None:
        """Issue `wanted` tickets, or as many as there are idle helpers that the team of the caller may still use."""
        team = _team.get()
        assert team is not None
        try:
            with self.lock:
                while self.count < wanted:
                    _ask_for_work_space()
                    # Not `threading.Thread`: its `start` waits forever if the new thread lacks the memory to start.
                    _thread.start_new_thread(self._serve, ())
                    self.count, self.idle = self.count + 1, self.idle + 1
                for _ in range(min(wanted, self.idle, team.free)):
                    ticket = _Ticket(job, team)
                    tickets.append(ticket)
                    self.idle, team.free = self.idle - 1, team.free - 1
                    self.tickets.put(ticket)
        except (RuntimeError, MemoryError):
            pass  # no more threads can be started: the caller works with the helpers that exist

    def dismiss(self, ticket: _Ticket) -> None:
        """Withdraw a ticket of a finished job, and wait for the helper that has taken it, if any."""
        if ticket.withdraw():
            with self.lock:
                ticket.team.free += 1

    def _serve(self) -> None:
        while True:
            ticket = self.tickets.get()
            used = ticket.use()
            with self.lock:
                self.idle += 1
                ticket.team.free += used
            del ticket


_helpers = _Helpers()


def _after_fork() -> None:
    global _helpers
    _helpers = _Helpers()  # a forked process has no other threads
    _process.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_process.lock.acquire, after_in_parent=_process.lock.release, after_in_child=_after_fork)
