"""The code that runs on the workers: calls of the objects of parts, which stay there between calls.

Objects are kept in the worker process, not in Dask's memory, because calls change them in place. A lost object is
remade from the constructor's arguments and the calls that have changed it, in the same order. So every answer is the
same, to the bit, even if workers are lost in between.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from distributed import get_worker
from distributed.protocol import pickle
from numpy.typing import NDArray

from maxmargin.core import Ledger, Matrix
from maxmargin.core.matrix import as_matrix
from maxmargin.core.memory import keep_freed_memory
from maxmargin.core.source import is_source
from maxmargin.core.threads import limit_blas
from maxmargin.core.types import Vector
from maxmargin.engine.parts import ALL, LocalParts, LocalRows, Scattered, TreeSum


@dataclass(frozen=True, eq=False)
class Unit:
    """Consecutive rows of the data on one worker.

    Attributes
    ----------
    X : array or CSR matrix
        The rows.
    first : int
        The position of the first row among all rows.
    n : int
        The number of all rows.
    unit_rows : int
        The number of rows of each unit except the last one.
    """

    X: Any
    first: int
    n: int
    unit_rows: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a unit on the worker that has received it."""
        vars(self).update(state, X=aligned(state["X"]))

    def __sizeof__(self) -> int:
        X = self.X
        return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


@dataclass(frozen=True)
class Compact:
    """A vector of a unit in a message: one number if all numbers are equal, bytes if they are small integers."""

    values: Any
    size: int

    @classmethod
    def of(cls, vector: Vector) -> Compact:
        if vector.size and (vector == vector[0]).all():
            return cls(float(vector[0]), vector.size)
        small = vector.astype(np.int8) if vector.size and np.abs(vector).max() < 128 else None
        return cls(vector if small is None or (small != vector).any() else small, vector.size)

    def vector(self) -> Vector:
        """Return the original vector."""
        return np.broadcast_to(np.asarray(self.values, dtype=np.float64), self.size).copy()


@dataclass(frozen=True)
class Change:
    """A call that changes the objects; the first call of a placement makes them.

    Attributes
    ----------
    method : str
        The name of a method; for the first change, the class of the objects, as "module:class".
    args : tuple
        The arguments. In a message to a worker, vectors over the rows are cut to the rows of a unit, as
        :class:`Compact`.
    """

    method: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Request:
    """A call of the objects of some units of one worker.

    Attributes
    ----------
    placement : str
        The name of the objects.
    ended : sequence of str
        Placements whose objects are no longer needed.
    units : bool
        Whether there is one object per unit, and not one per part.
    version : int
        The number of changes that the objects must have seen before this call.
    changes : bool
        Whether this call changes the objects.
    summed : bool
        Whether answers are summed; otherwise they are listed.
    method : str
        The method to call.
    args : sequence of tuple
        The arguments for each unit.
    missing : sequence of list of Change
        For each unit, the changes from version `since` on, for objects that must be remade.
    since : sequence of int
        For each unit, the number of changes that its objects have seen.
    """

    placement: str
    ended: Sequence[str]
    units: bool
    version: int
    changes: bool
    summed: bool
    method: str
    args: Sequence[tuple[Any, ...]]
    missing: Sequence[Sequence[Change]]
    since: Sequence[int]


class CannotLoad(RuntimeError):
    """The error that a worker cannot load what it was sent, for example a function from a module that it lacks."""


@dataclass(frozen=True)
class Packed:
    """A request as sent to a worker, which loads it inside the task.

    If Dask itself had to load something before a task begins and failed, that would end the worker, and then the next
    worker that receives it.

    Attributes
    ----------
    header : bytes
        The pickled request without the memory of its arrays.
    arrays : list of arrays of bytes
        The memory of the arrays in the request, which is not copied.
    """

    header: bytes
    arrays: list[NDArray[np.uint8]]

    @classmethod
    def of(cls, request: Request) -> Packed:
        arrays: list[NDArray[np.uint8]] = []
        header = pickle.dumps(
            request, buffer_callback=lambda found: arrays.append(np.frombuffer(found.raw(), np.uint8))
        )
        return cls(header, arrays)

    @property
    def nbytes(self) -> int:
        """The number of bytes to send."""
        return len(self.header) + sum(array.nbytes for array in self.arrays)

    def load(self) -> Request:
        """Return the original request."""
        try:
            request: Request = pickle.loads(self.header, buffers=self.arrays)
        except Exception as error:
            raise CannotLoad(f"{type(error).__name__}: {error}") from error
        return request


@dataclass(frozen=True)
class Behind:
    """The answer of a unit whose objects have seen only `version` changes, or do not exist (version 0)."""

    version: int


@dataclass(frozen=True)
class Answer:
    """The answer of the objects of a unit, and what they have read for it."""

    value: Any
    entries_read: int
    dense_count: int


@dataclass
class Held:
    """The objects of a unit on a worker."""

    X: Matrix
    parts: LocalParts | None = None
    version: int = 0  # the number of changes that the objects have seen
    last: Answer | None = None  # their answer to the last change, in case it was lost on the way
    lock: threading.Lock = field(default_factory=threading.Lock)


class OwnSqNorms:
    """Placeholder in a message for the squared norms of the rows of a unit, which the worker computes itself."""


_sq_norms: WeakKeyDictionary[Unit, Vector] = WeakKeyDictionary()
# The objects of each unit by placement. They are deleted together with the data when Dask releases a unit.
_held: WeakKeyDictionary[Unit, dict[str, Held]] = WeakKeyDictionary()
_lock = threading.Lock()


def call(packed: Packed, units: Sequence[Unit]) -> list[Answer | Behind]:
    """Call the objects of some units, one unit after another, with all threads of the worker."""
    request, threads = packed.load(), get_worker().state.nthreads
    with limit_blas(), keep_freed_memory():
        answers = [_call_unit(request, k, unit, threads) for k, unit in enumerate(units)]
    return _merged(answers) if request.summed else answers


def _merged(answers: Sequence[Answer | Behind]) -> list[Answer | Behind]:
    """Merge answers: the first gets the sums of all units, so a worker sends as much for many units as for one."""
    tree = TreeSum()
    for answer in answers:
        if isinstance(answer, Answer):
            tree.merge(answer.value)
    carried, merged = tree.nodes, list[Answer | Behind]()
    for answer in answers:
        if isinstance(answer, Answer):
            answer, carried = replace(answer, value=carried), {}
        merged.append(answer)
    return merged


def _call_unit(request: Request, k: int, unit: Unit, threads: int) -> Answer | Behind:
    held = _held_unit(request, unit, threads)
    with held.lock:
        if request.changes and held.version == request.version + 1 and held.last is not None:
            return deepcopy(held.last)  # the call was made before, but its answer was lost on the way
        if held.version != request.version:
            if not request.missing[k] or request.since[k] != held.version:
                return Behind(held.version)
            for change in request.missing[k]:
                _apply(held, unit, request.units, change)
        before = held.X.ledger.kept()
        assert held.parts is not None
        act = held.parts.nodes if request.summed else held.parts.collect
        value = act(request.method, *_scattered(request.args[k], unit))
        after = held.X.ledger.kept()
        answer = Answer(value, *(after[name] - before[name] for name in ("entries_read", "dense_count")))
        if request.changes:
            held.version, held.last = held.version + 1, deepcopy(answer)  # sums are computed in place
        return answer


def _apply(held: Held, unit: Unit, units: bool, change: Change) -> None:
    """Make the objects, or repeat a change of them."""
    if held.parts is None:
        module, _, name = change.method.partition(":")
        rows = LocalRows(held.X, unit.n, unit.first, unit.unit_rows)
        held.parts = rows.place(getattr(import_module(module), name), *_scattered(change.args, unit), units=units)
    else:
        held.parts.update(change.method, *_scattered(change.args, unit))
    held.version += 1


def _scattered(args: tuple[Any, ...], unit: Unit) -> list[Any]:
    def scattered(item: Any) -> Any:
        if isinstance(item, OwnSqNorms):
            return Scattered(_sq_norms_of(unit))
        return Scattered(item.vector()) if isinstance(item, Compact) else item

    return [scattered(item) for item in args]


def _sq_norms_of(unit: Unit) -> Vector:
    """Return the squared norms of the rows of a unit, which are computed only once."""
    if unit not in _sq_norms:
        _sq_norms[unit] = as_matrix(unit.X).row_sq_norms()
    return _sq_norms[unit]


def _held_unit(request: Request, unit: Unit, threads: int) -> Held:
    with _lock:
        placements = _held.setdefault(unit, {})
        for ended in request.ended:
            placements.pop(ended, None)
        if request.placement not in placements:
            placements[request.placement] = Held(as_matrix(unit.X, threads))
        return placements[request.placement]


@dataclass(frozen=True)
class StoredRows:
    """Rows in a file or a store. Only the path is sent; a worker opens it when it needs the rows.

    Attributes
    ----------
    path : str
        The path, in the form that :func:`maxmargin.data.read_table` accepts.
    label_column : str, int or None
        The column that holds the labels and is not a feature; None if there is none.
    """

    path: str
    label_column: str | int | None = None

    def open(self) -> Matrix:
        """Open the rows; nothing is read yet from a store or a .npy file."""
        from maxmargin.data import as_matrix as wrapped
        from maxmargin.data import load_table

        return wrapped(load_table(self.path, label_column=self.label_column).X)


@dataclass(frozen=True)
class NamedRows:
    """Rows of a CSV file in memory, with the names in its header.

    Attributes
    ----------
    X : array
        The rows.
    columns : list of str
        The names of their columns.
    """

    X: NDArray[Any]
    columns: list[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of rows and columns."""
        return self.X.shape


def assemble(
    pieces: Sequence[Any], cuts: Sequence[slice], first: int, n: int, unit_rows: int, dtype: str, sparse: bool
) -> Unit:
    """Assemble the rows of a unit from slices of partitions, as CSR if any rows of the data are sparse.

    If one partition holds all the rows, nothing is copied.
    """
    import scipy.sparse as sp

    rows = [readable(piece, dtype, cut) for piece, cut in zip(pieces, cuts, strict=True)]
    X = rows[0] if len(rows) == 1 else stacked(rows)
    return Unit(sp.csr_array(X) if sparse and not sp.issparse(X) else X, first, n, unit_rows)


def moved(unit: Unit) -> Unit:
    """Return the same rows; Dask moves them to the worker that runs this."""
    return unit


def stacked(rows: Sequence[Any]) -> Any:
    """Stack rows vertically, as dense or CSR like the inputs; as CSR if the inputs are of both kinds."""
    import scipy.sparse as sp

    if not any(sp.issparse(some) for some in rows):
        return np.concatenate(rows)
    return sp.csr_array(sp.vstack([sp.csr_array(some) for some in rows], format="csr"))


def opened(X: Any) -> Matrix | None:
    """Open the rows of a partition in a store, without reading them; None if they are in memory."""
    from maxmargin.data import as_matrix as wrapped
    from maxmargin.data.stores import is_store

    if isinstance(X, (str, os.PathLike)):
        X = StoredRows(os.fspath(X))
    if isinstance(X, StoredRows):
        return X.open()
    return wrapped(X) if isinstance(X, Matrix) or is_source(X) or is_store(X) else None


def readable(X: Any, dtype: str | None = None, rows: slice = ALL) -> Any:
    """Return some rows of a partition as an array or CSR matrix of floats of this type.

    A data frame is converted, and rows of a store are read.
    """
    import scipy.sparse as sp

    stored = opened(X)
    X = _in_memory(X)[rows] if stored is None else stored[rows]
    if sp.issparse(X) and X.format != "csr":
        X = X.tocsr()
    wanted = np.dtype(dtype) if dtype is not None else float_type(X.dtype)
    if X.dtype != wanted:
        return X.astype(wanted)
    return aligned(X)


def aligned(X: Any) -> Any:
    """Return the same rows, copied if they are not aligned.

    Arrays received over the network may begin at any address, but compiled code needs aligned numbers.
    """
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    return X if all(array.flags.aligned for array in arrays) else X.copy()


def _in_memory(X: Any) -> Any:
    """Return the rows of a partition as an array or a sparse matrix of numbers, whose rows can be sliced."""
    import scipy.sparse as sp

    if isinstance(X, NamedRows):
        X = X.X
    elif not (sp.issparse(X) or isinstance(X, np.ndarray)):
        X = _array_of_frame(X) if hasattr(X, "columns") else np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"it has shape {tuple(X.shape)}; expected rows and columns. Reshape it: a single feature is a column"
        )
    if X.dtype.kind not in "biuf":
        try:
            if X.dtype.kind not in "OUS":
                raise TypeError(X.dtype)
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"it holds {X.dtype}; expected numbers ({error})") from error
    return X.tocsr() if sp.issparse(X) else X


def _array_of_frame(X: Any) -> NDArray[Any]:
    """Return the values of a data frame, in float32 if all columns are float32; missing values become NaN."""
    types = [np.dtype(kind) if isinstance(kind, np.dtype) else None for kind in getattr(X, "dtypes", [])]
    if types and None not in types and all(kind.kind in "biuf" for kind in types if kind is not None):
        return np.asarray(X.to_numpy())
    columns = [_column(X[name], name) for name in X.columns]
    return np.stack(columns, axis=1) if columns else np.empty((len(X), 0))


def _column(values: Any, name: Any) -> NDArray[Any]:
    """Convert a column of a data frame to numbers."""
    try:
        if str(values.dtype).lower().startswith(("date", "time", "period", "complex")):
            raise TypeError("it holds no real numbers")
        if hasattr(values, "iloc"):
            return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
        return np.asarray(values.to_numpy(), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"its column {name!r} is of the type {values.dtype}; expected numbers ({error}). Drop it, or encode it "
            "as numbers"
        ) from error


def float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which numbers are read: float32 and float64 unchanged, others as float64."""
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


@dataclass(frozen=True)
class Description:
    """What the driver must know about a partition."""

    shape: tuple[int, int]
    dtype: str  # the float type in which its numbers are read
    n_stored: int
    sparse: bool
    names: list[str] | None
    stored: bool  # whether it is in a store, which any worker can open


def describe(X: Any) -> Description:
    """Describe the rows of a partition."""
    if (store := opened(X)) is not None:
        names = None if store.feature_names is None else [str(name) for name in store.feature_names]
        return Description(store.shape, str(store.dtype), int(store.n_stored), store.sparse, names, True)
    names = _names_of(X) if hasattr(X, "columns") else None
    X = readable(X)
    sparse = not isinstance(X, np.ndarray)
    stored = int(X.nnz) if sparse else int(X.size)
    return Description(X.shape, str(X.dtype), stored, sparse, names, False)


def _names_of(X: Any) -> list[str] | None:
    """Return the column names of a data frame as scikit-learn does: None if the columns are numbered."""
    if isinstance(X, NamedRows):
        return X.columns
    from sklearn.utils.validation import _get_feature_names  # imported here because it takes a second

    found = _get_feature_names(X)
    return None if found is None else list(found)


def item(pair: Any, k: int) -> Any:
    """Return item k of a partition given as (X, y) or (X, y, weights); None for missing weights."""
    if not isinstance(pair, (list, tuple)) or len(pair) not in (2, 3):
        what = f"a {type(pair).__name__}" + (f" of {len(pair)} items" if isinstance(pair, (list, tuple)) else "")
        raise TypeError(
            f"it is {what}; expected a pair (X, y) or a triple (X, y, weights), as no y was given for all partitions"
        )
    return pair[k] if k < len(pair) else None


def read_pair(path: str, label_column: str | int) -> tuple[Any, NDArray[Any]]:
    """Read the rows and the labels of a file; see :func:`maxmargin.data.read_table` for the label column."""
    from maxmargin.data import load_table, required_labels

    table = load_table(path, label_column=label_column)
    y = required_labels(path, table)
    if opened(table.X) is not None:
        return StoredRows(path, label_column), y
    X = readable(table.X)
    return (X if table.names is None else NamedRows(X, table.names)), y


def as_labels(y: Any) -> NDArray[Any]:
    """Convert labels or weights of a partition to an array of one dimension; a single column is flattened."""
    if y is None:
        raise ValueError("there is none")
    found = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise ValueError(f"it has shape {found.shape}; expected one number or name for each row")
    return found


def new_ledger(entries_read: int, dense_count: int) -> Ledger:
    """Make a ledger with these counts, to be added to another ledger."""
    ledger = Ledger()
    ledger.take(
        {"entries_read": entries_read, "dense_count": dense_count, "purposes": {}, "paid": 0.0, "fetched": (0, 0)}
    )
    return ledger
