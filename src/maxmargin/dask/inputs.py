"""Conversion of the user's data to partitions of rows on the workers and labels in this process."""

from __future__ import annotations

import glob
import os
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed
from distributed import Client, Future
from numpy.typing import NDArray
from scipy.sparse import issparse

from maxmargin.dask import worker
from maxmargin.dask.client import LOST, ClusterError, finished, results_of, workers_of
from maxmargin.dask.parts import Units
from maxmargin.dask.rows import ClusterRows
from maxmargin.dask.worker import Description
from maxmargin.engine.parts import rows_per_unit, slices
from maxmargin.estimators.validation import lies_elsewhere

Labels = NDArray[Any]
Check = Callable[[Any, Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Partitions:
    """The partitions of X, and the labels and weights as they were given or partition by partition.

    Attributes
    ----------
    X : list of Future or Delayed or data
        The rows of each partition: an array, a CSR matrix, a data frame, a path or a store.
    y, weights : anything or None
        The labels and the weights.
    paired : bool
        Whether labels and weights were given together with each partition of X.
    checked : bool
        Whether X is data in this process that was validated as without a cluster.
    """

    X: list[Any]
    y: Any
    weights: Any
    paired: bool = False
    checked: bool = False


def partitions_of(X: Any, y: Any, sample_weight: Any, check: Check) -> Partitions:
    """Return the partitions of the X, y and sample_weight that a user gives.

    `check` validates arrays and similar data in this process, as an estimator without a cluster does.
    """
    if isinstance(X, (str, os.PathLike)):
        X = files_of(X)
    files = isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(item, (str, os.PathLike)) for item in X)
    if files and (y is None or isinstance(y, str)):  # the labels are in the files, in the last column or in this one
        read = dask.delayed(partial(worker.read_pair, label_column=y or "last"), pure=False)
        X, y = [read(os.fspath(item)) for item in X], None
    if isinstance(y, str):
        raise TypeError(
            f"y={y!r} is a name, but X is not a path or a list of paths; give the labels, for a data frame "
            f"X=frame.drop(columns={y!r}), y=frame[{y!r}]"
        )
    if _is_array(X):
        if X.ndim != 2:
            raise ValueError(
                f"X must have rows and columns; got a dask array of {X.ndim} dimensions. Reshape it: a single feature "
                "is a column, X[:, None]"
            )
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})  # a worker needs whole rows
        return Partitions(list(X.to_delayed().ravel()), y, sample_weight)
    if _is_frame(X):
        return Partitions(list(X.to_delayed()), y, sample_weight)
    if isinstance(X, (Future, Delayed)):
        X = [X]
    if isinstance(X, (list, tuple)) and X and all(_is_partition(item, with_labels=y is None) for item in X):
        return _of_list(list(X), y, sample_weight)
    if is_dask_collection(X):
        raise TypeError(
            f"X must be a dask array or data frame, or a list of partitions; got a {type(X).__name__}. Convert it, for "
            "example with to_dataframe()"
        )
    if lies_elsewhere(X):
        _refuse_not_sent(X)
        return Partitions([X], y, sample_weight)
    if not is_dask_collection(y) and not _is_lazy_list(y):
        X, y = check(X, y)
    else:
        X, _ = check(X, np.arange(X.shape[0]))
    return Partitions(_cut(X), y, sample_weight, checked=True)


def files_of(path: str | os.PathLike[str]) -> list[str]:
    """Return the files that match a pattern such as "data-*.parquet", or the given path if it is not a pattern."""
    name = os.fspath(path)
    found = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not found:
        raise FileNotFoundError(f"no file matches {name!r}")
    return found


def _cut(X: Any) -> list[Any]:
    """Cut rows in this process into pieces that are sent to one worker at a time."""
    if issparse(X):
        X = X.tocsr()
    return [X[rows] for rows in slices(X.shape[0], rows_per_unit(X.shape[0]))]


def _refuse_not_sent(X: Any) -> None:
    """Refuse an open store that cannot be opened by another process."""
    try:
        pickle.dumps(X)
    except Exception as error:
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__}, which cannot be sent to the workers ({error}); give its "
            "path, such as 'data.h5::/X', which each worker opens"
        ) from error


def _is_array(X: Any) -> bool:
    return is_dask_collection(X) and hasattr(X, "numblocks")


def _is_frame(X: Any) -> bool:
    return is_dask_collection(X) and hasattr(X, "npartitions") and hasattr(X, "columns")


def _is_partition(item: Any, *, with_labels: bool) -> bool:
    """Whether an item of a list is a partition and not a row; with `with_labels`, it may be a pair or a triple."""
    if isinstance(item, (Future, Delayed, str, os.PathLike)) or len(getattr(item, "shape", ())) == 2:
        return True
    pair = with_labels and isinstance(item, (list, tuple)) and len(item) in (2, 3)
    return pair and _is_partition(item[0], with_labels=False)


def _is_lazy_list(values: Any) -> bool:
    """Whether labels or weights are a list of partitions, some of which are not in this process."""
    return isinstance(values, (list, tuple)) and any(isinstance(item, (Future, Delayed)) for item in values)


def _of_list(items: list[Any], y: Any, sample_weight: Any) -> Partitions:
    """Convert a list of partitions of X, or, without y, of pairs (X, y) or triples, each of which may be a future."""
    if y is not None:
        return Partitions(items, y, sample_weight)
    if sample_weight is not None:
        raise ValueError("with a list of pairs (X, y), give weights as the third item of each, not as sample_weight")
    if all(isinstance(item, (list, tuple)) for item in items):
        if len({len(item) for item in items}) > 1:
            raise ValueError("all partitions must be pairs (X, y), or all triples (X, y, weights)")
        columns = [list(column) for column in zip(*items, strict=True)]
    elif all(isinstance(item, (Future, Delayed)) for item in items):
        take = [dask.delayed(partial(worker.item, k=k), pure=True) for k in range(3)]
        columns = [[each(item) for item in items] for each in take]
    else:
        raise ValueError("y is missing: give labels, or a list of partitions that are pairs (X, y)")
    return Partitions(columns[0], columns[1], columns[2] if len(columns) > 2 else None, paired=True)


def place(client: Client, X: Sequence[Any], *, units_for: int | None = None) -> ClusterRows:
    """Bring partitions of rows to the workers, as units of consecutive rows.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    X : list
        The partitions, as in :class:`Partitions`.
    units_for : int or None
        The number of units, which then have about equal size and are spread evenly over the workers, regardless of
        where the partitions are. If None, the size of units depends only on the number of rows.
    """
    threads = workers_of(client)
    places = [address for address, count in threads.items() for _ in range(count)]
    futures = [_computed(client, item, places[k * len(places) // len(X)]) for k, item in enumerate(X)]
    described = client.map(worker.describe, futures, pure=False)
    told: list[Description] = _results(client, described, futures, "X")
    names, d = _refuse_different(told)
    starts = np.cumsum([0, *(each.shape[0] for each in told)])
    n = int(starts[-1])
    if n == 0:
        raise ValueError(f"X has no rows: all of its {len(told)} partitions are empty; expected at least one sample")
    if d == 0:
        raise ValueError(f"X has 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    dtype = np.dtype(np.result_type(*[each.dtype for each in told if each.shape[0]]))
    height = rows_per_unit(n) if units_for is None else -(-n // units_for)
    cuts = slices(n, height)
    sources = [[k for k in range(len(told)) if starts[k] < rows.stop and starts[k + 1] > rows.start] for rows in cuts]
    who, sparse = client.who_has(futures), any(each.sparse for each in told)

    def assembled(number: int, pieces: Sequence[Future]) -> Future:
        """Assemble a unit from its partitions, on the worker with most of its rows; with `units_for`, round-robin."""
        rows, own = cuts[number], sources[number]
        parts = [slice(max(rows.start - starts[k], 0), min(rows.stop, starts[k + 1]) - starts[k]) for k in own]
        each = zip(own, pieces, parts, strict=True)
        where = _place_of_most([(who.get(piece.key), cut) for k, piece, cut in each if not told[k].stored])
        if units_for is not None or (where is None and all(told[k].stored for k in own)):  # any worker can read it
            where = places[number * len(places) // len(cuts)]
        near = {"workers": [where], "allow_other_workers": True} if where else {}
        facts = (parts, rows.start, n, height, str(dtype), sparse)
        return client.submit(worker.assemble, list(pieces), *facts, pure=False, **near)

    def sent_again(number: int) -> Future | None:
        """Assemble a unit again after it was lost with a worker; None unless its rows are in this process."""
        if not all(_is_here(X[k]) for k in sources[number]):
            return None
        return assembled(number, [client.scatter(X[k], hash=False) for k in sources[number]])

    units = [assembled(number, [futures[k] for k in own]) for number, own in enumerate(sources)]
    here = any(_is_here(item) for item in X)
    placed = Units(client, units, cuts, sources, sent_again=sent_again if here else None)
    stored = sum(each.n_stored for each in told)
    return ClusterRows(placed, (n, d), dtype, stored, sparse, [each.shape[0] for each in told], names)


def _is_here(item: Any) -> bool:
    """Whether a partition is data in this process."""
    return not isinstance(item, (Future, Delayed, str, os.PathLike))


def _computed(client: Client, item: Any, address: str) -> Future:
    """Return a partition as a future; if it is not computed yet, this worker computes it if it is free."""
    where = {"workers": [address], "allow_other_workers": True}
    if isinstance(item, Future):
        return item
    if isinstance(item, Delayed):
        return client.compute(item, **where)
    if isinstance(item, (str, os.PathLike)):
        return client.submit(os.fspath, os.fspath(item), pure=False, **where)
    return client.scatter(item, workers=[address], hash=False)


def _place_of_most(pieces: Sequence[tuple[Any, slice]]) -> str | None:
    """Return the worker that holds most of the rows of a unit."""
    counts: dict[str, int] = {}
    for where, cut in pieces:
        if where:
            counts[where[0]] = counts.get(where[0], 0) + cut.stop - cut.start
    return max(counts, key=lambda address: counts[address]) if counts else None


def _results(client: Client, tasks: Sequence[Future], partitions: Sequence[Any], name: str) -> list[Any]:
    """Return the result of a task for each partition; an error names the partition that caused it."""
    tasks = list(tasks)
    try:
        finished(client, tasks)
        return results_of(client, tasks)
    except Exception as error:
        for k, task in enumerate(tasks):
            source = partitions[k] if isinstance(partitions[k], Future) else task
            if task.status == "error" and source.status == "error":
                cause = source.exception()
                raise ClusterError(
                    f"partition {k} of {name} could not be computed: {type(cause).__name__}: {cause}"
                ) from cause
            if task.status == "error":
                cause = task.exception()
                kind = type(cause) if isinstance(cause, (TypeError, ValueError, ImportError, OSError)) else ClusterError
                raise _named(kind, f"partition {k} of {name} cannot be used: {cause}") from cause
        for k, task in enumerate(tasks):
            if task.status in LOST and client.status == "running":
                raise ClusterError(
                    f"partition {k} of {name} was lost with its worker, and Dask does not know where it came from; "
                    "give data that can be read again, such as a dask array of files, and not futures of scattered "
                    "arrays"
                ) from error
        raise


def _named(kind: type[Exception], message: str) -> Exception:
    """Make an error of a kind that takes only a message; a ValueError or OSError replaces kinds that take more."""
    plain = kind if kind in (TypeError, ValueError, ImportError, OSError, FileNotFoundError, ClusterError) else None
    return (plain or (OSError if issubclass(kind, OSError) else ValueError))(message)


def _refuse_different(told: Sequence[Description]) -> tuple[list[str] | None, int]:
    """Refuse partitions with different features; return the names of the features, and their number."""
    first = next((k for k, each in enumerate(told) if each.shape[0]), 0)
    for k, each in enumerate(told):
        if each.shape[0] == 0:
            continue
        if each.shape[1] != told[first].shape[1]:
            raise ValueError(
                f"partition {k} of X has {each.shape[1]} columns, partition {first} has {told[first].shape[1]}; all "
                "partitions must have the same features"
            )
        if each.names != told[first].names:
            raise ValueError(
                f"the columns of partition {k} of X are {_few(each.names)}, those of partition {first} are "
                f"{_few(told[first].names)}; all partitions must have the same names in the same order"
            )
    return told[first].names, told[first].shape[1]


def _few(names: Sequence[str] | None) -> str:
    if names is None:
        return "without names"
    return ", ".join(repr(name) for name in names[:10]) + (", ..." if len(names) > 10 else "")


def gathered(client: Client, values: Any, counts: Sequence[int], name: str, *, paired: bool = False) -> Labels | None:
    """Gather the labels or weights of all rows in this process; None if no partition has any.

    Parameters
    ----------
    client : Client
        The client of the cluster.
    values : dask array or series, list of partitions, array, series or list
        The labels or weights.
    counts : list of int
        The number of rows of each partition of X.
    name : str
        The name of the values in errors.
    paired : bool
        Whether `values` is a list with one item per partition of X.
    """
    values = _lazy_parts(values)
    if paired or _is_lazy_list(values) or _is_list_of_arrays(values):
        futures = [client.compute(item) if isinstance(item, Delayed) else item for item in values]
        lazy = [item for item in futures if isinstance(item, Future)]
        answers = iter(_results(client, lazy, lazy, name) if lazy else [])
        found = [next(answers) if isinstance(item, Future) else item for item in futures]
    else:
        found = [values]
    if paired and name == "sample_weight" and all(each is None for each in found):
        return None
    several = len(found) > 1 or paired
    parts = []
    for k, each in enumerate(found):
        try:
            parts.append(worker.as_labels(each))
        except ValueError as error:
            of = f"{name} of partition {k}" if several else name
            raise ValueError(f"{of} cannot be used: {error}") from error
    total, n = sum(len(part) for part in parts), int(sum(counts))
    if total != n or paired:
        for k, (part, count) in enumerate(zip(parts, counts, strict=len(parts) == len(counts))):
            if several and len(parts) == len(counts) and len(part) != count:
                raise ValueError(
                    f"partition {k} of X has {count:,} rows, but its {name} has {len(part):,}; give one value per row"
                )
    if total != n:
        raise ValueError(f"X has {n:,} rows, but {name} has {total:,}; give one value per row")
    return _joined([part for part in parts if part.size], name)


def _joined(parts: Sequence[Labels], name: str) -> Labels:
    """Join the labels of all nonempty partitions in one array; a mixture of numbers and names is an error."""
    kinds = [("names" if isinstance(part.flat[0], str) else "numbers") for part in parts]
    if len(set(kinds)) > 1:
        k = next(k for k, kind in enumerate(kinds) if kind != kinds[0])
        raise ValueError(
            f"{name} holds {kinds[0]} such as {parts[0].flat[0]!r} in one partition and {kinds[k]} such as "
            f"{parts[k].flat[0]!r} in another; give labels of one type"
        )
    return np.concatenate(parts)


def _is_list_of_arrays(values: Any) -> bool:
    several = isinstance(values, (list, tuple)) and len(values) > 0
    return several and all(len(getattr(item, "shape", ())) >= 1 for item in values)


def _lazy_parts(values: Any) -> Any:
    """Return the partitions of labels in a dask array or series; other labels are returned unchanged."""
    if isinstance(values, (Delayed, Future)):
        return [values]
    if not is_dask_collection(values):
        return values
    if hasattr(values, "numblocks") and values.ndim == 2 and values.numblocks[1] > 1:
        values = values.rechunk({1: -1})
    parts = values.to_delayed()
    return list(parts.ravel()) if isinstance(parts, np.ndarray) else list(parts)
