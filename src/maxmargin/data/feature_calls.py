"""Concurrent calls of the functions that compute features; a call that fails is retried."""

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
    """The error that features could not be computed. Features that other calls have computed are kept.

    Attributes
    ----------
    rows, columns : array of int64
        The entries that the call was to compute: entries at these rows and columns, whole rows, or whole columns. An
        array is empty if the call was for all rows or columns.
    row, column : int or None
        The first item of `rows` and `columns`; None if the array is empty.
    """

    def __init__(self, message: str, rows: Indices, columns: Indices) -> None:
        super().__init__(message)
        self.rows, self.columns = rows, columns
        self.row = int(rows[0]) if rows.size else None
        self.column = int(columns[0]) if columns.size else None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.rows, self.columns)


class FeatureCalls:
    """Makes calls in threads, in processes or, for coroutine functions, in one event loop.

    Parameters
    ----------
    workers : int
        The maximum number of concurrent calls.
    backend : {"threads", "processes"}
        Where functions run. Coroutine functions are awaited in a separate thread.
    retries : int
        The maximum number of retries of a call that raises an exception.
    retry_wait : float
        The seconds before the first retry. Each further wait is twice as long.
    """

    def __init__(self, workers: int, backend: str, retries: int, retry_wait: float) -> None:
        self.workers, self.backend, self.retries, self.retry_wait = workers, backend, retries, retry_wait
        self.executor: Executor | None = None
        self.loop: _EventLoop | None = None

    def results(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Yield the number of each call with its result, or the last exception that it raised, as calls end.

        After an exception, no further calls are started, but running calls are awaited.
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
    """Whether a call of the function returns a coroutine, which must be awaited."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _executor(backend: str, workers: int) -> Executor:
    if backend == "threads":
        return ThreadPoolExecutor(workers, thread_name_prefix="maxmargin-features")
    from joblib.externals.loky import ProcessPoolExecutor  # also pickles lambdas and functions defined in a notebook

    executor: Executor = ProcessPoolExecutor(workers)
    return executor


def _attempt(function: Callable[..., Any], arguments: tuple[Any, ...], retries: int, wait: float) -> Any:
    """Return the result of a call, or the exception of the last attempt."""
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
    """An event loop in a separate thread, because the caller may run in another event loop, as in a notebook."""

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
    """Describe a call, for example "entries() of row 3, columns 7 to 9"."""
    parts = [_numbers(what, lines) for what, lines in (("row", rows), ("column", columns)) if lines.size]
    return f"{name}() of {', '.join(parts)}"


def _numbers(what: str, lines: Indices) -> str:
    first, last = int(lines.min()), int(lines.max())
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


NO_LINES: Indices = np.zeros(0, dtype=np.int64)
