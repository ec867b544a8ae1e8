"""Matrices in stores (Zarr, HDF5, Parquet, Arrow, AnnData), which are read in blocks and never loaded completely."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from maxmargin.core.optional import MissingPackageError, import_optional
from maxmargin.core.source import Source
from maxmargin.data.stores.arrays import DEFAULT_BLOCK_SIZE, AbsentChunks, StoredArray
from maxmargin.data.stores.arrow import ArrowFile, ArrowTable
from maxmargin.data.stores.blocks import BlockSize
from maxmargin.data.stores.columns import table_matrix
from maxmargin.data.stores.groups import is_array, open_matrix
from maxmargin.data.stores.hdf5 import Hdf5Array
from maxmargin.data.stores.parquet import ParquetParts, parquet_files
from maxmargin.data.stores.zarr_arrays import ZarrArray, is_zarr
from maxmargin.data.streams import FileFormatError

__all__ = ["MissingPackageError", "is_store", "open_store", "store_kind"]

Kind = Literal["zarr", "hdf5", "parquet", "arrow"]

DEFAULT_CACHE_SIZE = 1 << 30  # bytes: 1 GB, which any machine that holds many GB of data has
INSIDE = "::"  # separates the path of a file from the place in it: data.h5::/group/X

_PACKAGES: dict[str, tuple[Kind, str]] = {
    # For the package of an object's type: the kind of store, and the objects that can be read.
    "zarr": ("zarr", "a Zarr array or group"),
    "h5py": ("hdf5", "a dataset or group of h5py"),
    "pyarrow": ("arrow", "a pyarrow.Table"),
    "anndata": ("hdf5", "the X of an AnnData object"),
}
_NEEDS = {"zarr": "zarr", "hdf5": "h5py", "parquet": "pyarrow", "arrow": "pyarrow"}
_SUFFIXES: dict[str, Kind] = {
    ".zarr": "zarr",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".h5ad": "hdf5",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}
# The first bytes of files; a Parquet file also ends with them.
_PARQUET = b"PAR1"
_SIGNATURES: dict[bytes, Kind] = {b"\x89HDF\r\n\x1a\n": "hdf5", _PARQUET: "parquet", b"ARROW1\0\0": "arrow"}


def open_store(
    store: Any,
    *,
    cache_size: int = DEFAULT_CACHE_SIZE,
    block_size: int = DEFAULT_BLOCK_SIZE,
    columns: Sequence[str] | None = None,
    absent_chunks: AbsentChunks = "error",
) -> Source:
    """Open a matrix in a store, without reading its entries.

    ============ ============================================= ==================================================
    kind         path                                          object
    ============ ============================================= ==================================================
    Zarr         folder with `zarr.json` (or of format 2)      `zarr.Array`, `zarr.Group`
    HDF5         .h5, .hdf5, .h5ad                             `h5py.Dataset`, `h5py.Group`, `h5py.File`
    Parquet      .parquet, or a folder of such files           (give the path)
    Arrow        .arrow, .feather (IPC files)                  `pyarrow.Table`, `pyarrow.RecordBatch`
    AnnData      .h5ad, or a Zarr folder                       `adata.X` of a file opened with `backed="r"`
    ============ ============================================= ==================================================

    In a group, the matrix is `X`, dense or sparse (see :mod:`maxmargin.data.stores.groups`). float32 and float64 are
    not converted. float16, bool and integers of at most 16 bits are converted, block by block, to float32, and other
    integers to float64. Missing values in Parquet and Arrow become NaN.

    Parameters
    ----------
    store : str, path or object
        The store; `file.h5::/path/to/matrix` names a matrix inside a file or folder.
    cache_size : int, default=2**30
        The maximum number of bytes of the blocks kept in memory. A block takes at most an eighth of it.
    block_size : int, default=2**16
        Chunks are combined to blocks of at least this many bytes, and a Zarr shard of up to twice as many bytes is one
        block. Passes over a store of small chunks or of shards are several times faster with blocks of a few MB, but
        solvers that read single rows and columns, such as SIMBA, read less with small blocks.
    columns : sequence of str, default=None
        The columns of a Parquet or Arrow store that are features. None means all columns.
    absent_chunks : {"error", "fill"}, default="error"
        What to do if a chunk of a Zarr or HDF5 array is not in the store. By default, Zarr does not write chunks that
        equal the fill value, so such a chunk cannot be distinguished from a lost one. "fill" assumes the fill value.

    Returns
    -------
    Source
        The matrix, which is read block by block.

    Raises
    ------
    FileFormatError
        If the store is damaged or does not hold a matrix of numbers, with the chunk. Reading can raise it too.
    MissingPackageError
        If the package that reads the store is not installed. This is an ImportError.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, zarr
    >>> from maxmargin.data.stores import open_store
    >>> path = tempfile.mkdtemp() + "/rows.zarr"
    >>> array = zarr.create_array(path, shape=(1000, 20), chunks=(100, 20), dtype="float32")
    >>> array[:] = np.random.default_rng(0).random((1000, 20))
    >>> X = open_store(path)
    >>> X.shape, X.dtype.name
    ((1000, 20), 'float32')
    >>> block = X.rows.read(0)  # chunks of 8 KB are combined to blocks of 64 KB
    >>> block.lines.shape, block.chunks, block.bytes
    ((900, 20), 9, 72000)
    """
    if block_size < 1:
        raise ValueError(f"block_size is a number of bytes of at least 1; got {block_size!r}")
    size = BlockSize(cache_size, block_size)
    if isinstance(store, (str, os.PathLike)):
        kind = store_kind(store)
        if kind is None:
            path, _ = split_inside(store)
            if not path.exists():
                raise FileNotFoundError(2, "no such file or folder", str(path))
            raise FileFormatError(path, None, None, "not a Zarr folder or an HDF5, Parquet or Arrow file")
        node = open_node(store, kind)
    elif is_store(store):
        kind, node = _kind_and_node(store)
    else:
        raise TypeError(f"expected a path, or an object of Zarr, h5py, pyarrow or AnnData; got {type(store).__name__}")
    if kind in ("zarr", "hdf5"):
        if columns is not None:
            raise ValueError("only Parquet and Arrow stores have named columns; leave out columns=")
        name = os.fspath(store) if isinstance(store, (str, os.PathLike)) else node_name(node)
        return open_matrix(node, name, array_reader(kind, absent_chunks), size)
    return table_matrix(node, size, columns)


def is_store(X: object) -> bool:
    """Whether an object belongs to a package whose data :func:`open_store` reads; imports none of these packages.

    >>> import pyarrow
    >>> is_store(pyarrow.table({"length": [1.0, 2.0]})), is_store([1.0, 2.0])
    (True, False)
    """
    return _package_of(X) in _PACKAGES


def store_kind(path: str | os.PathLike[str]) -> Kind | None:
    """Return the kind of store at a path, by its content or otherwise by its name; None if it is not a store."""
    where, _ = split_inside(path)
    if where.is_dir():
        return "zarr" if is_zarr(where) else "parquet" if parquet_files(where) else None
    if not where.is_file():
        return None
    with where.open("rb") as file:
        head = file.read(8)
        file.seek(max(0, where.stat().st_size - len(_PARQUET)))
        if head.startswith(_PARQUET) and file.read() != _PARQUET:  # text may begin like this, but does not end like it
            head = b""
    by_content = (kind for signature, kind in _SIGNATURES.items() if head.startswith(signature))
    return next(by_content, _SUFFIXES.get(where.suffix.lower()))


def package_for(path: str | os.PathLike[str]) -> str | None:
    """Return the package that writes a store of this name; None if it is not a store.

    >>> package_for("rows.h5"), package_for("rows.npy")
    ('h5py', None)
    """
    kind = _SUFFIXES.get(Path(path).suffix.lower())
    return None if kind is None else _NEEDS[kind]


def split_inside(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """Return the path of a store, and the place of a matrix in it.

    >>> split_inside("data.h5::/train/X")[1]
    '/train/X'
    """
    where, _, inside = os.fspath(path).partition(INSIDE)
    return Path(where), inside


def open_node(path: str | os.PathLike[str], kind: Kind) -> Any:
    """Open a path: return an array or a group of Zarr or h5py, or the parts of a table."""
    where, inside = split_inside(path)
    if kind in ("zarr", "hdf5"):
        return node_in(open_root(path, kind), path, inside)
    _import(kind)
    return ParquetParts(where) if kind == "parquet" else ArrowFile(where)


def open_root(path: str | os.PathLike[str], kind: Kind) -> Any:
    """Open the array or the group at the top of a Zarr folder or an HDF5 file."""
    where, _ = split_inside(path)
    package = _import(kind)
    try:
        return package.open(where, mode="r") if kind == "zarr" else package.File(where, "r")
    except (OSError, ValueError) as error:
        what = "a Zarr folder" if kind == "zarr" else "an HDF5 file"
        raise FileFormatError(where, None, None, f"{what} that cannot be opened: {error}") from error


def node_in(root: Any, path: str | os.PathLike[str], inside: str) -> Any:
    """Return the array or group at a place in a Zarr folder or an HDF5 file; at "" the whole store."""
    place = inside.strip("/")
    if not place:
        return root
    if is_array(root) or place not in root:
        held = "an array" if is_array(root) else ", ".join(root) or "nothing"
        raise FileFormatError(split_inside(path)[0], None, None, f"nothing named {inside}; it holds {held}")
    return root[place]


def array_reader(kind: Kind, absent_chunks: AbsentChunks) -> Callable[[Any], StoredArray]:
    """Return the function that makes a StoredArray from an array of Zarr or h5py."""
    if absent_chunks not in ("error", "fill"):
        raise ValueError(f"absent_chunks is {absent_chunks!r}; expected 'error' or 'fill'")
    return partial(ZarrArray if kind == "zarr" else Hdf5Array, absent_chunks=absent_chunks)


def node_name(node: Any) -> str:
    """Return the name in messages of an array or a group that was given as an object."""
    return f"{node.store}{node.name}" if hasattr(node, "store") else f"{node.file.filename}{INSIDE}{node.name}"


def _package_of(X: object) -> str:
    return type(X).__module__.partition(".")[0]


def _kind_and_node(store: Any) -> tuple[Kind, Any]:
    node = getattr(store, "group", store) if _package_of(store) == "anndata" else store  # a sparse X has a group
    kind, expected = _PACKAGES[_package_of(node)]
    if kind == "arrow" and hasattr(node, "to_batches"):
        return kind, ArrowTable(node)
    if kind == "arrow" or not hasattr(node, "attrs"):
        raise TypeError(f"expected {expected}; got {type(node).__module__}.{type(node).__name__}")
    return kind, node


def _import(kind: Kind) -> Any:
    return import_optional(_NEEDS[kind], f"a store of this kind ({kind})")
