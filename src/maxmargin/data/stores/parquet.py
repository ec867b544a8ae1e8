"""Parquet files and folders of them (pyarrow): columns are features, and the row groups are the chunks.

A row group is read as a whole, one column chunk for each column: to read a part of its rows costs as much as to read
all of them. The files of a folder follow each other in the order of their names. Their sizes and times are noted when
they are opened and looked at again at each read.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.stores.arrays import FileStamp
from maxmargin.data.streams import FileFormatError


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and the folders in it, in the order of their paths."""
    files = sorted(path for path in folder.rglob("*.parquet") if path.is_file())
    return [path for path in files if not path.name.startswith(("_", "."))]


class ParquetParts:
    """The row groups of a Parquet file, or of a folder of them: :class:`maxmargin.data.stores.columns.TableParts`."""

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
                    file, None, None, "the name of its folder is a value of a column, which is not read; write it anew"
                )
            stamp = FileStamp(file)
            try:
                metadata, schema = _metadata(stamp), pq.read_schema(file)
            except (OSError, ValueError) as error:  # the errors of pyarrow are subclasses of these
                raise FileFormatError(file, None, None, f"not a Parquet file that can be read ({error})") from error
            if file == files[0]:
                self.schema = schema.remove_metadata()
            elif not schema.remove_metadata().equals(self.schema):
                raise FileFormatError(file, None, None, f"its columns are not those of {files[0].name}")
            self._groups += [(stamp, group) for group in range(metadata.num_row_groups)]
            counts += [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self.starts = np.cumsum(counts, dtype=np.int64)

    def read(self, part: int, names: list[str]) -> Any:
        import pyarrow.parquet as pq

        # Opened for each read: a ParquetFile must not be used by two threads at the same time.
        file, group = self._groups[part]
        with pq.ParquetFile(file.path, metadata=_metadata(file)) as opened:
            return opened.read_row_group(group, columns=names)

    def check_unchanged(self, part: int) -> None:
        self._groups[part][0].check()


@lru_cache(maxsize=8)
def _metadata(file: FileStamp) -> Any:
    """The description of a file at its end. Only some are kept: each takes some hundred bytes for a column chunk."""
    import pyarrow.parquet as pq

    return pq.read_metadata(file.path)
