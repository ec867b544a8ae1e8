"""Arrow tables (pyarrow), in memory or in IPC files (.arrow, .feather), which are memory-mapped.

The batches of a table are its chunks. If they are not compressed, some rows of a batch can be read without the others,
and a batch is counted as if it had chunks of 4 KB of each column, or larger chunks if there are few columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.data.stores.arrays import FileStamp
from maxmargin.data.streams import FileFormatError


class ArrowTable:
    """A table in memory; implements :class:`maxmargin.data.stores.columns.TableParts`."""

    sliceable = True
    name = "the Arrow table"

    def __init__(self, table: Any) -> None:
        self.schema = table.schema
        self._batches = table.to_batches()
        self.starts = np.cumsum([0, *(batch.num_rows for batch in self._batches)], dtype=np.int64)

    def read(self, part: int, names: list[str]) -> Any:
        return self._batches[part].select(names)

    def check_unchanged(self, part: int) -> None:
        """Do nothing, because tables in memory cannot change."""


class ArrowFile:
    """A memory-mapped IPC file; implements :class:`maxmargin.data.stores.columns.TableParts`."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self.name, self._file = str(path), FileStamp(path)
        try:
            self._map = pa.memory_map(self.name)
            reader = pa.ipc.open_file(self._map)
            self.schema = reader.schema
            count = reader.num_record_batches
            # If nothing is compressed, batches are parts of the mapped file, and all of them are kept. Otherwise, a
            # batch is decompressed when it is read; to find its number of rows, one column is decompressed here.
            self.sliceable = count == 0 or self._is_mapped(reader.get_batch(0))
            self._batches = [reader.get_batch(k) for k in range(count)] if self.sliceable else []
            narrow = self._reader([0])
            counts = [narrow.get_batch(k).num_rows for k in range(count)]
        except (OSError, ValueError) as error:  # the errors of pyarrow are subclasses of these
            raise FileFormatError(path, None, None, f"not an Arrow IPC file that can be read ({error})") from error
        self.starts = np.cumsum([0, *counts], dtype=np.int64)

    def read(self, part: int, names: list[str]) -> Any:
        self._file.check()  # reading from a truncated mapped file would kill the process
        if self.sliceable:
            return self._batches[part].select(names)
        return self._reader([self.schema.get_field_index(name) for name in names]).get_batch(part)

    def _reader(self, columns: list[int]) -> Any:
        """Return a reader of some columns; no other columns of compressed batches are decompressed."""
        import pyarrow as pa

        return pa.ipc.open_file(self._map, options=pa.ipc.IpcReadOptions(included_fields=columns))

    def check_unchanged(self, part: int) -> None:
        self._file.check()

    def _is_mapped(self, batch: Any) -> bool:
        self._map.seek(0)
        whole = self._map.read_buffer()
        buffers = [buffer for column in batch.columns for buffer in column.buffers() if buffer is not None]
        return all(whole.address <= buffer.address < whole.address + whole.size for buffer in buffers)
