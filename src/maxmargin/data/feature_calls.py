"""Calls of the functions that compute features: several at a time, each tried again where it fails."""

from __future__ import annotations

import asyncio
import inspect
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from threading import Thread
from typing import Any

import numpy as np

from maxmargin.core.types import Indices

BACKENDS = ("threads", "processes")


class FeatureError(RuntimeError):
    """Features could not be computed. What other calls had computed by then is kept.

    Attributes
    ----------
    rows, columns : array of int64
        What the call was to compute: the entries at these rows and columns, or whole rows, or whole columns; an
        array is empty where the call was for all.
    row, column : int or None
        The first of them; None where the call was for all.
    """

    def __init__(self, message: str, rows: Indices, columns: Indices) -> None:
        super().__init__(message)
        self.rows, self.columns = rows, columns
        self.row = int(rows[0]) if rows.size else None
        self.column = int(columns[0]) if columns.size else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.rows, self.columns)


class FeatureCalls:
    """Makes calls in threads, in processes or, of coroutine functions, in one event loop.

    Parameters
    ----------
    workers : int
        How many calls run at the same time, at most.
    backend : {"threads", "processes"}
        Where functions run; coroutine functions are awaited in a thread of their own.
    retries : int
        How many times a call that raised an exception is made again.
    retry_wait : float
        The seconds before the first retry; each following wait is twice as long.
    """

    def __init__(self, workers: int, backend: str, retries: int, retry_wait: float) -> None:
        self.workers, self.backend, self.retries, self.retry_wait = workers, backend, retries, retry_wait
        self.executor: Executor | None = None
        self.loop: _EventLoop | None = None

    def results(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """The number and the result of each call, in the order in which they end, or the exception that it raised last.

        After an exception, no further calls are begun; those that run are waited for.
        """
        if self.workers == 1 and self.backend == "threads" and not is_async(function):
            for k, arguments in enumerate(calls):
                outcome = _attempt(function, arguments, self.retries, self.retry_wait)
                yield k, outcome
                if isinstance(outcome, Exception):
                    return
            return
        number = {self._submit(function, arguments): k for k, arguments in enumerate(calls)}
        try:
            for future in as_completed(number):
                if future.cancelled():
                    continue
                outcome = future.result()
                yield number[future], outcome
                if isinstance(outcome, Exception):
                    _cancel(number)
        finally:
            _cancel(number)

    def _submit(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Future[Any]:
        if is_async(function):
            if self.loop is None:
                self.loop = _EventLoop(self.workers)
            return self.loop.submit(_attempt_async(function, arguments, self.retries, self.retry_wait))
        if self.executor is None:
            self.executor = _executor(self.backend, self.workers)
        return self.executor.submit(_attempt, function, arguments, self.retries, self.retry_wait)

    def close(self) -> None:
        """End the threads and processes."""
        if self.executor is not None:
            self.executor.shutdown()
        if self.loop is not None:
            self.loop.close()
        self.executor = self.loop = None


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call gives a coroutine, which is awaited."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _executor(backend: str, workers: int) -> Executor:
    if backend == "threads":
        return ThreadPoolExecutor(workers, thread_name_prefix="maxmargin-features")
    from joblib.externals.loky import ProcessPoolExecutor  # which pickles lambdas and functions of a notebook, too

    executor: Executor = ProcessPoolExecutor(workers)
    return executor


def _attempt(function: Callable[..., Any], arguments: tuple[Any, ...], retries: int, wait: float) -> Any:
    """The result of a call, or the exception of the last attempt."""
    for attempt in range(retries + 1):
        try:
            return function(*arguments)
        except Exception as error:
            if attempt == retries:
                return error
        time.sleep(wait * 2**attempt)
    raise AssertionError("the last attempt returns")


async def _attempt_async(function: Callable[..., Any], arguments: tuple[Any, ...], retries: int, wait: float) -> Any:
    for attempt in range(retries + 1):
        try:
            return await function(*arguments)
        except Exception as error:
            if attempt == retries:
                return error
        await asyncio.sleep(wait * 2**attempt)
    raise AssertionError("the last attempt returns")


def _cancel(futures: Iterator[Future[Any]] | dict[Future[Any], int]) -> None:
    for future in futures:
        future.cancel()


class _EventLoop:
    """An event loop in a thread of its own: the caller may be inside of another one, as in a notebook."""

    def __init__(self, workers: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.free = asyncio.Semaphore(workers)
        self.thread = Thread(target=_run, args=(self.loop,), name="maxmargin-features", daemon=True)
        self.thread.start()
        self.close = weakref.finalize(self, self.loop.call_soon_threadsafe, self.loop.stop)

    def submit(self, coroutine: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(_in_turn(self.free, coroutine), self.loop)


async def _in_turn(free: asyncio.Semaphore, coroutine: Any) -> Any:
    async with free:
        return await coroutine


def _run(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.close()


def described(name: str, rows: Indices, columns: Indices) -> str:
    """A call in words, such as "entries() of row 3, columns 7 to 9"."""
    parts = [_numbers(what, lines) for what, lines in (("row", rows), ("column", columns)) if lines.size]
    return f"{name}() of {', '.join(parts)}"


def _numbers(what: str, lines: Indices) -> str:
    first, last = int(lines.min()), int(lines.max())
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


NO_LINES: Indices = np.zeros(0, dtype=np.int64)
