"""Parquet files and folders of them (pyarrow), whose columns are features and whose row groups are chunks.

A row group is read as a whole, one column chunk for each column: reading some of its rows costs as much as reading all.
The files of a folder are concatenated in the order of their names. Their sizes and modification times are recorded when
they are opened, and checked at each read.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.stores.arrays import FileStamp
from maxmargin.data.streams import FileFormatError


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files in a folder and its subfolders, in the order of their paths."""
    files = sorted(path for path in folder.rglob("*.parquet") if path.is_file())
    return [path for path in files if not path.name.startswith(("_", "."))]


class ParquetParts:
    """The row groups of Parquet files; implements :class:`maxmargin.data.stores.columns.TableParts`."""

    sliceable = False

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.name = str(path)
        files = parquet_files(path) if path.is_dir() else [path]
        self._groups: list[tuple[FileStamp, int]] = []
        counts = [0]
        for file in files:
            if any("=" in folder for folder in file.relative_to(path).parts[:-1]):
                raise FileFormatError(
                    file,
                    None,
                    None,
                    "its folder name holds the value of a column, which is not supported; write the data again without "
                    "partitions",
                )
            stamp = FileStamp(file)
            try:
                metadata, schema = _metadata(stamp), pq.read_schema(file)
            except (OSError, ValueError) as error:  # the errors of pyarrow are subclasses of these
                raise FileFormatError(file, None, None, f"not a Parquet file that can be read ({error})") from error
            if file == files[0]:
                self.schema = schema.remove_metadata()
            elif not schema.remove_metadata().equals(self.schema):
                raise FileFormatError(file, None, None, f"its columns differ from those of {files[0].name}")
            self._groups += [(stamp, group) for group in range(metadata.num_row_groups)]
            counts += [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self.starts = np.cumsum(counts, dtype=np.int64)

    def read(self, part: int, names: list[str]) -> Any:
        import pyarrow.parquet as pq

        # The file is opened for each read, because two threads must not use a ParquetFile at the same time.
        file, group = self._groups[part]
        with pq.ParquetFile(file.path, metadata=_metadata(file)) as opened:
            return opened.read_row_group(group, columns=names)

    def check_unchanged(self, part: int) -> None:
        self._groups[part][0].check()


@lru_cache(maxsize=8)
def _metadata(file: FileStamp) -> Any:
    """Read the metadata of a file. Only a few are cached, because each takes some hundred bytes per column chunk."""
    import pyarrow.parquet as pq

    return pq.read_metadata(file.path)
