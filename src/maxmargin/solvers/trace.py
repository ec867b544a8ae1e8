"""What a solver did, one row a check."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Row:
    """One check of a run. What was not measured is NaN.

    Entries are those of the matrix that the problem is on: of a kernel's matrix, each is a kernel evaluation.
    """

    iteration: int
    seconds: float
    entries_read: int
    kernel_evaluations: int = 0
    primal: float = math.nan
    dual: float = math.nan
    gap: float = math.nan
    holdout_error: float = math.nan

    def line(self) -> str:
        """The row for a person to read: what was measured."""
        what = "kernel evaluations" if self.kernel_evaluations else "entries read"
        parts = [f"iteration {self.iteration:,}", f"{self.seconds:.1f} s", f"{self.entries_read:,} {what}"]
        if not math.isnan(self.gap):
            parts.append(f"value {self.primal:.4g}, bound {self.dual:.4g}")
        if not math.isnan(self.holdout_error):
            parts.append(f"holdout error {100 * self.holdout_error:.2f} %")
        return ", ".join(parts)


class Trace(Sequence[Row]):
    """The checks of a run, in order.

    Examples
    --------
    >>> from maxmargin.solvers import Row, Trace
    >>> trace = Trace([Row(1, 0.1, 100), Row(2, 0.2, 200, primal=0.1, dual=0.3, gap=0.2)])
    >>> trace.column("entries_read")
    array([100, 200])
    >>> trace[-1].gap
    0.2
    """

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows = list(rows)

    def append(self, row: Row) -> None:
        """Add a check."""
        self._rows.append(row)

    def column(self, name: str) -> NDArray[Any]:
        """One column of the table as an array."""
        return np.array([getattr(row, name) for row in self._rows])

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self._rows], columns=[field.name for field in fields(Row)])

    def plot(self, **options: Any) -> Any:
        """Draw the table; see :class:`maxmargin.display.ConvergenceDisplay` for the options."""
        from maxmargin.display import ConvergenceDisplay

        return ConvergenceDisplay.from_trace(self, **options)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Trace: ...
    def __getitem__(self, index: int | slice) -> Row | Trace:
        return Trace(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trace) and self._rows == other._rows

    def __repr__(self) -> str:
        return f"Trace of {len(self)} checks" + (f", the last one {self._rows[-1]}" if self._rows else "")
