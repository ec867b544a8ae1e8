"""What runs on the workers: calls of the objects of parts, which live there between the calls.

Objects are kept in this process, not in Dask's memory: a call changes them in place. Nothing is lost with them: an
object is made again from the constructor's arguments and the calls that have changed it, in the same order. So every
answer is the same to the bit, whatever happened to the workers in between.
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
    """Rows of the data that lie together on a worker.

    Attributes
    ----------
    X : array or CSR matrix
        The rows.
    first : int
        The number of the first one among all rows.
    n : int
        The number of all rows.
    unit_rows : int
        The number of rows of each unit but the last one.
    """

    X: Any
    first: int
    n: int
    unit_rows: int

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Called on the worker that a unit has come to."""
        vars(self).update(state, X=aligned(state["X"]))

    def __sizeof__(self) -> int:
        X = self.X
        return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


@dataclass(frozen=True)
class Compact:
    """A vector of a unit on its way to the worker: one number if all are equal, bytes if they are small integers."""

    values: Any
    size: int

    @classmethod
    def of(cls, vector: Vector) -> Compact:
        if vector.size and (vector == vector[0]).all():
            return cls(float(vector[0]), vector.size)
        small = vector.astype(np.int8) if vector.size and np.abs(vector).max() < 128 else None
        return cls(vector if small is None or (small != vector).any() else small, vector.size)

    def vector(self) -> Vector:
        """The vector again."""
        return np.broadcast_to(np.asarray(self.values, dtype=np.float64), self.size).copy()


@dataclass(frozen=True)
class Change:
    """A call that changes the objects, or, as the first one of a placement, makes them.

    Attributes
    ----------
    method : str
        The name of a method; of the first change, that of the class of the objects, as "module:class".
    args : tuple
        Its arguments; on their way to a worker, vectors over the rows are cut to those of a unit, as :class:`Compact`.
    """

    method: str
    args: tuple[Any, ...]


@dataclass(frozen=True)
class Request:
    """A call of the objects of some units of one worker.

    Attributes
    ----------
    placement : str
        Which objects.
    ended : sequence of str
        Placements whose objects nobody needs any more.
    units : bool
        Whether there is one object for each unit, and not one for each part.
    version : int
        How many changes the objects must have seen before.
    changes : bool
        Whether this call changes them.
    summed : bool
        Whether answers are summed; else they are listed.
    method : str
    args : sequence of tuple
        The arguments for each unit.
    missing : sequence of list of Change
        For each unit, the changes from `since` on, for objects that have to be made again.
    since : sequence of int
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
    """A worker cannot load what it was sent: a function or a class of a module that it does not have, for instance."""


@dataclass(frozen=True)
class Packed:
    """A request on its way to a worker, which loads it within the task.

    What Dask itself loads before a task begins, and cannot, ends the worker, and then the next one that is sent it.

    Attributes
    ----------
    header : bytes
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
        """How many bytes are sent."""
        return len(self.header) + sum(array.nbytes for array in self.arrays)

    def load(self) -> Request:
        """The request again."""
        try:
            request: Request = pickle.loads(self.header, buffers=self.arrays)
        except Exception as error:
            raise CannotLoad(f"{type(error).__name__}: {error}") from error
        return request


@dataclass(frozen=True)
class Behind:
    """The answer of a unit whose objects have not seen all changes: they have seen so many, or are not there (0)."""

    version: int


@dataclass(frozen=True)
class Answer:
    """What the objects of a unit have answered, and what they have read for it."""

    value: Any
    entries_read: int
    dense_count: int


@dataclass
class Held:
    """The objects of a unit, as a worker holds them."""

    X: Matrix
    parts: LocalParts | None = None
    version: int = 0  # how many changes they have seen
    last: Answer | None = None  # what they answered to the last one, in case that answer was lost
    lock: threading.Lock = field(default_factory=threading.Lock)


class OwnSqNorms:
    """On its way to a worker, stands for the squared norms of the rows of a unit, which the worker computes itself."""


_sq_norms: WeakKeyDictionary[Unit, Vector] = WeakKeyDictionary()
# The objects of each unit by placement. They end with the data: when Dask lets go of a unit, they are gone.
_held: WeakKeyDictionary[Unit, dict[str, Held]] = WeakKeyDictionary()
_lock = threading.Lock()


def call(packed: Packed, units: Sequence[Unit]) -> list[Answer | Behind]:
    """Call the objects of some units, one unit after the other, with the threads that the worker has."""
    request, threads = packed.load(), get_worker().state.nthreads
    with limit_blas(), keep_freed_memory():
        answers = [_call_unit(request, k, unit, threads) for k, unit in enumerate(units)]
    return _merged(answers) if request.summed else answers


def _merged(answers: Sequence[Answer | Behind]) -> list[Answer | Behind]:
    """The answers, of which the first has the sums over all units: a worker sends as much for many as for one."""
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
            return deepcopy(held.last)  # the call was made, and its answer was lost on the way
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
    """Make the objects, or make a change of them again."""
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
    """The squared norms of the rows of a unit, which are computed once."""
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
    """Rows in a file or a store, which a worker opens where it needs them: only the path is sent.

    Attributes
    ----------
    path : str
        As :func:`maxmargin.data.read_table` takes it.
    label_column : str, int or None
        The column that holds the labels, which is no feature; None: there is none.
    """

    path: str
    label_column: str | int | None = None

    def open(self) -> Matrix:
        """The rows; of a store and of a .npy file, nothing is read yet."""
        from maxmargin.data import as_matrix as wrapped
        from maxmargin.data import load_table

        return wrapped(load_table(self.path, label_column=self.label_column).X)


def assemble(
    pieces: Sequence[Any], cuts: Sequence[slice], first: int, n: int, unit_rows: int, dtype: str, sparse: bool
) -> Unit:
    """The rows of a unit, from slices of partitions, as CSR if any rows of the data are sparse.

    Nothing is copied where one partition holds all of them.
    """
    import scipy.sparse as sp

    rows = [readable(piece, dtype, cut) for piece, cut in zip(pieces, cuts, strict=True)]
    X = rows[0] if len(rows) == 1 else stacked(rows)
    return Unit(sp.csr_array(X) if sparse and not sp.issparse(X) else X, first, n, unit_rows)


def moved(unit: Unit) -> Unit:
    """The same rows on the worker that runs this: Dask brings them there."""
    return unit


def stacked(rows: Sequence[Any]) -> Any:
    """Rows one below the other, dense or CSR as they are; CSR where they are of both kinds."""
    import scipy.sparse as sp

    if not any(sp.issparse(some) for some in rows):
        return np.concatenate(rows)
    return sp.csr_array(sp.vstack([sp.csr_array(some) for some in rows], format="csr"))


def opened(X: Any) -> Matrix | None:
    """The rows of a partition that lies in a store, of which nothing is read yet; None if they are in memory."""
    from maxmargin.data import as_matrix as wrapped
    from maxmargin.data.stores import is_store

    if isinstance(X, (str, os.PathLike)):
        X = StoredRows(os.fspath(X))
    if isinstance(X, StoredRows):
        return X.open()
    return wrapped(X) if isinstance(X, Matrix) or is_source(X) or is_store(X) else None


def readable(X: Any, dtype: str | None = None, rows: slice = ALL) -> Any:
    """Some rows of a partition as a matrix that can be read: an array, or a CSR matrix, of floats of this type.

    A data frame is converted; of a store, these rows are read.
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
    """The same rows, copied if they are not aligned.

    What has come over the network may begin anywhere in memory, and compiled code reads whole numbers.
    """
    arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    return X if all(array.flags.aligned for array in arrays) else X.copy()


def _in_memory(X: Any) -> Any:
    """The rows of a partition as an array or a sparse matrix of numbers, whose rows can be sliced."""
    import scipy.sparse as sp

    if not (sp.issparse(X) or isinstance(X, np.ndarray)):
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
    """The values of a data frame, of float32 if all columns are; missing values become NaN."""
    types = [np.dtype(kind) if isinstance(kind, np.dtype) else None for kind in getattr(X, "dtypes", [])]
    if types and None not in types and all(kind.kind in "biuf" for kind in types if kind is not None):
        return np.asarray(X.to_numpy())
    columns = [_column(X[name], name) for name in X.columns]
    return np.stack(columns, axis=1) if columns else np.empty((len(X), 0))


def _column(values: Any, name: Any) -> NDArray[Any]:
    """A column of a data frame as numbers."""
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
    """The type in which numbers of a type are read: float32 and float64 as they are, others as float64."""
    return dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)


@dataclass(frozen=True)
class Description:
    """What the driver must know of a partition."""

    shape: tuple[int, int]
    dtype: str  # of the floats that its numbers are read as
    n_stored: int
    sparse: bool
    names: list[str] | None
    stored: bool  # whether it lies in a store, which any worker can open


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
    """The names of the columns of a data frame, as scikit-learn reads them: None where they are numbered."""
    from sklearn.utils.validation import _get_feature_names  # its import takes a second, which arrays are spared

    found = _get_feature_names(X)
    return None if found is None else list(found)


def item(pair: Any, k: int) -> Any:
    """Item k of a partition that is given as (X, y) or (X, y, weights); None if it has no weights."""
    if not isinstance(pair, (list, tuple)) or len(pair) not in (2, 3):
        what = f"a {type(pair).__name__}" + (f" of {len(pair)} items" if isinstance(pair, (list, tuple)) else "")
        raise TypeError(
            f"it is {what}; expected a pair (X, y) or a triple (X, y, weights), as no y was given for all partitions"
        )
    return pair[k] if k < len(pair) else None


def read_pair(path: str, label_column: str | int) -> tuple[Any, NDArray[Any]]:
    """The rows and the labels of a file; see :func:`maxmargin.data.read_table` for the column of the labels."""
    from maxmargin.data import read_table

    X, y = read_table(path, label_column=label_column)
    return (StoredRows(path, label_column) if opened(X) is not None else readable(X)), y


def as_labels(y: Any) -> NDArray[Any]:
    """Labels or weights of a partition as an array of one dimension; a single column becomes one."""
    if y is None:
        raise ValueError("there is none")
    found = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise ValueError(f"it has shape {found.shape}; expected one number or name for each row")
    return found


def new_ledger(entries_read: int, dense_count: int) -> Ledger:
    """A ledger with these counts, to be added to another one."""
    ledger = Ledger()
    ledger.take(
        {"entries_read": entries_read, "dense_count": dense_count, "purposes": {}, "paid": 0.0, "fetched": (0, 0)}
    )
    return ledger
