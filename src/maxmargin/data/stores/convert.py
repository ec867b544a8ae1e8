"""Conversion between file formats with bounded memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from maxmargin.core.optional import import_optional
from maxmargin.data.stores import package_for
from maxmargin.data.stores.arrays import AbsentChunks
from maxmargin.data.stores.row_streams import RowStream, open_rows
from maxmargin.data.stores.writers import FORMATS, Layout, holds_sparse, writer_for

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    chunks: tuple[int, int] | None = None,
    also_by_column: bool = False,
    sparse: bool | None = None,
    force: bool = False,
    label_column: str | int | None = "last",
    labels: str | os.PathLike[str] | None = None,
    header: bool | Literal["auto"] = "auto",
    absent_chunks: AbsentChunks = "error",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write data in another format, block by block.

    Memory holds the labels, 8 bytes per row of a sparse matrix, and a few blocks: some hundred MB, regardless of the
    size of the data. LIBSVM and CSV files are read twice, first for their width and labels; data from a pipe is first
    copied to a temporary file. Only .npz files and .npy files of integers are loaded completely.

    Parameters
    ----------
    source : str or path
        Data in any format that :func:`maxmargin.data.read_table` reads; "-" is standard input.
    target : str or path
        The file or folder to write. Its name determines the format: .zarr, .h5, .hdf5, .parquet, .arrow, .feather,
        .npy, .libsvm, .svm or .svmlight (the last three also with .gz, .bz2 or .xz). Labels become the array `y` next
        to `X`, the last column, or the labels of a LIBSVM file. The target is written completely or not at all.
    chunks : tuple of int, default=None
        The numbers of rows and columns of a chunk of a dense Zarr or HDF5 array. None means whole rows of about 4 MB
        together. For Parquet and Arrow, the first number is the number of rows of a row group or batch, and the second
        one is ignored.
    also_by_column : bool, default=False
        Whether to write a second copy, `X_by_column`, from which columns are read; for Zarr and HDF5 only.
    sparse : bool, default=None
        Whether to write a sparse matrix; for Zarr and HDF5 only. None means as in the source.
    force : bool, default=False
        Whether to replace an existing target.
    label_column, labels, header, absent_chunks
        Where the labels are, and how to read the source; see :func:`maxmargin.data.read_table`.
    progress : callable, default=None
        A function that is called after each block with the number of rows read so far and the number of all rows.

    Raises
    ------
    FileExistsError
        If the target exists and `force` is False.
    OSError
        If writing fails, for example because the disk is full. The target is then unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from maxmargin.data import convert, read_table
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "rows.csv").write_text("length,width,kind\\n5.1,3.5,1\\n6.2,2.9,2\\n")
    >>> convert(folder / "rows.csv", folder / "rows.zarr")
    >>> X, y = read_table(folder / "rows.zarr")
    >>> X.shape, y.tolist()
    ((2, 2), [1.0, 2.0])
    """
    path = Path(target)
    write = _checked_target(source, path, force)
    native = holds_sparse(path)
    if native is not None and (sparse not in (None, native) or also_by_column):
        what = "by columns too" if also_by_column else "sparse" if sparse else "dense"
        raise ValueError(f"{path}: only .zarr, .h5 and .hdf5 can be written {what}")
    if chunks is not None and (min(chunks) < 1 or native is True or path.suffix == ".npy"):
        raise ValueError(f"chunks of {chunks[0]}x{chunks[1]} for {path}: give at least 1x1, and for a chunked format")
    with open_rows(
        source, label_column=label_column, labels=labels, header=header, absent_chunks=absent_chunks
    ) as rows:
        if native is None:
            native = rows.sparse if sparse is None else sparse
            if native and chunks is not None:
                raise ValueError("chunks are for dense arrays; give sparse=False (--dense), or leave them out")
        if progress is not None:
            rows = _reporting(rows, progress)
        try:
            write(path, rows, Layout(native, chunks, also_by_column))
        except OSError as error:
            if error.errno in _FULL or any(f"errno = {number}" in str(error) for number in _FULL):
                message = "the disk is full, or the file is too large for it; nothing was written"
                raise OSError(error.errno or errno.ENOSPC, message, str(path)) from error
            raise


def _checked_target(
    source: str | os.PathLike[str], path: Path, force: bool
) -> Callable[[Path, RowStream, Layout], None]:
    write = writer_for(path)
    if write is None:
        raise ValueError(f"cannot write {path}: its name must end in one of {', '.join(FORMATS)}")
    if package := package_for(path):
        import_optional(package, f"writing {path}")  # fail before the source is read
    if path.exists():
        if os.path.exists(source) and path.samefile(source):
            raise ValueError(f"{path} is the source; give another name for the target")
        if not force:
            raise FileExistsError(
                errno.EEXIST, "it is there already; give another name, or force=True (--force)", str(path)
            )
    return write


def _reporting(rows: RowStream, progress: Callable[[int, int], None]) -> RowStream:
    """Return the same rows, and report each block after it is used."""

    def blocks() -> Iterator[Any]:
        done = 0
        for block in rows.blocks():
            yield block
            done += block.shape[0]
            progress(done, rows.shape[0])

    return replace(rows, blocks=blocks)
