"""The trace of a run: a table with one row for each check."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from maxmargin.core.optional import import_optional
from maxmargin.core.types import Vector
from maxmargin.engine.by_name import ByName
from maxmargin.engine.certificate import Certificate


@dataclass(frozen=True)
class Row:
    """One check of a run. Quantities that were not measured are NaN.

    Attributes
    ----------
    iteration : int
        Iterations made so far.
    seconds : float
        Time since the run began.
    entries_read : int
        Entries of the data read so far to learn; 0 if the problem is on a kernel matrix.
    kernel_evaluations : int
        Entries of the kernel matrix computed so far to learn; 0 if the problem is not on a kernel matrix.
    primal, dual, gap : float
        The value reached, the bound that no solution can beat, and their difference, if the check certified them.
    holdout_error : float
        The share of the holdout that is misclassified.
    estimated_gap : float
        The solver's own estimate of the relative gap, if it has one. The estimate costs nothing and proves nothing.
    paid : float
        What the entries read so far have cost, if entries have prices.
    """

    iteration: int
    seconds: float
    entries_read: int
    kernel_evaluations: int = 0
    primal: float = math.nan
    dual: float = math.nan
    gap: float = math.nan
    holdout_error: float = math.nan
    estimated_gap: float = math.nan
    paid: float = math.nan

    @property
    def cost(self) -> float:
        """What counts against a budget: the price paid if entries have prices, else entries or kernel evaluations."""
        return self.entries_read + self.kernel_evaluations if math.isnan(self.paid) else self.paid

    @property
    def relative_gap(self) -> float:
        """The certified gap as a share of the larger of value and bound; `tol` is compared with this number."""
        size = max(abs(self.primal), abs(self.dual))
        return self.gap / size if size > 0 else self.gap

    def line(self) -> str:
        """One line of text with everything that was measured."""
        what = "kernel evaluations" if self.kernel_evaluations else "entries read"
        what = what if math.isnan(self.paid) else "paid"
        parts = [f"iteration {self.iteration:,}", f"{self.seconds:.1f} s", f"{self.cost:,} {what}"]
        if not math.isnan(self.gap):
            parts.append(f"value {self.primal:.4g}, bound {self.dual:.4g}")
        elif math.isfinite(self.estimated_gap):
            parts.append(f"gap about {100 * self.estimated_gap:.2g} %")
        if not math.isnan(self.holdout_error):
            parts.append(f"holdout error {100 * self.holdout_error:.2f} %")
        return ", ".join(parts)


class Trace(Sequence[Row]):
    """The checks of a run, in order.

    Parameters
    ----------
    rows : sequence of Row
        The checks.
    tol : float or None
        The relative gap at which the run was to stop, if it had such a stop rule.

    Examples
    --------
    >>> from maxmargin.solvers import Row, Trace
    >>> trace = Trace([Row(1, 0.1, 100), Row(2, 0.2, 200, primal=0.1, dual=0.3, gap=0.2)])
    >>> trace.column("entries_read")
    array([100, 200])
    >>> trace[-1].gap
    0.2
    """

    def __init__(self, rows: Sequence[Row] = (), tol: float | None = None) -> None:
        self._rows = list(rows)
        self.tol = tol

    def append(self, row: Row) -> None:
        """Append the row of a check."""
        self._rows.append(row)

    def column(self, name: str) -> NDArray[Any]:
        """One column of the table as an array: a field of :class:`Row`, its `cost` or its `relative_gap`."""
        return np.array([getattr(row, name) for row in self._rows])

    def to_pandas(self) -> Any:
        """The table as a pandas DataFrame."""
        pandas = import_optional("pandas", "a table")

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
        return Trace(self._rows[index], self.tol) if isinstance(index, slice) else self._rows[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace) or len(self) != len(other) or self.tol != other.tol:
            return False
        # A quantity that neither of the two has measured counts as equal, although NaN != NaN.
        return all(
            np.array_equal(self.column(field.name), other.column(field.name), equal_nan=True) for field in fields(Row)
        )

    def __repr__(self) -> str:
        return f"Trace of {len(self)} checks" + (f", the last one {self._rows[-1]}" if self._rows else "")


class Traces(Sequence[Trace]):
    """The traces of the binary problems of one fit, in order and by name; a read-only sequence.

    Parameters
    ----------
    traces : mapping of str to Trace
        The trace of each binary problem, by the name of the problem.

    Attributes
    ----------
    names : tuple of str
        The names, in the same order as the traces.

    Examples
    --------
    >>> from maxmargin.solvers import Row, Trace, Traces
    >>> traces = Traces({"0 against 1": Trace([Row(1, 0.1, 100)]), "0 against 2": Trace([Row(3, 0.2, 300)])})
    >>> len(traces), traces.names
    (2, ('0 against 1', '0 against 2'))
    >>> traces[1] == traces["0 against 2"]
    True
    """

    def __init__(self, traces: Mapping[str, Trace]) -> None:
        self._traces = ByName.of(traces)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the binary problems."""
        return tuple(self._traces)

    def items(self) -> Iterator[tuple[str, Trace]]:
        """Name and trace of each binary problem."""
        return iter(self._traces.items())

    def to_pandas(self) -> Any:
        """One table of all traces as a pandas DataFrame; the column "problem" names the binary problem of a row."""
        pandas = import_optional("pandas", "a table")

        tables = {name: trace.to_pandas() for name, trace in self._traces.items()}
        for name, table in tables.items():
            table.insert(0, "problem", name)
        return pandas.concat(tables.values(), ignore_index=True)

    def plot(self, **options: Any) -> Any:
        """Draw the traces; see :class:`maxmargin.display.ConvergenceDisplay` for the options."""
        from maxmargin.display import ConvergenceDisplay

        return ConvergenceDisplay.from_trace(self, **options)

    def __len__(self) -> int:
        return len(self._traces)

    def __iter__(self) -> Iterator[Trace]:
        return iter(self._traces.values_in_order)

    @overload
    def __getitem__(self, index: int | str) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> Traces: ...
    def __getitem__(self, index: int | str | slice) -> Trace | Traces:
        if isinstance(index, str):
            try:
                return self._traces[index]
            except KeyError:
                raise KeyError(f"no binary problem is named {index!r}; the names are {', '.join(self.names)}") from None
        names, traces = self._traces.names, self._traces.values_in_order
        return Traces(ByName(names[index], traces[index])) if isinstance(index, slice) else traces[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Traces) and list(self._traces.items()) == list(other._traces.items())

    def __repr__(self) -> str:
        return f"Traces of {len(self)} binary problems, {sum(map(len, self))} checks: {reprlib.repr(list(self.names))}"


@dataclass(frozen=True)
class TraceColumns(Sequence[Trace]):
    """The traces of many problems that were checked once, at their end; each trace is made when it is asked for.

    Attributes
    ----------
    iteration : array
        Iterations of each problem.
    seconds : array of float
        When each problem was solved, in seconds since the fit began.
    kernel_evaluations : array
        Entries of the kernel matrix computed for each problem.
    certificates : sequence of Certificate
        The certificate of each problem.
    tol : float
        The relative gap at which the problems were to stop.
    """

    iteration: Vector
    seconds: Vector
    kernel_evaluations: Vector
    certificates: Sequence[Certificate]
    tol: float

    def __len__(self) -> int:
        return self.iteration.size

    @overload
    def __getitem__(self, which: int) -> Trace: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Trace]: ...
    def __getitem__(self, which: int | slice) -> Trace | Sequence[Trace]:
        if isinstance(which, slice):
            return [self[k] for k in range(*which.indices(len(self)))]
        counts = int(self.iteration[which]), float(self.seconds[which]), 0, int(self.kernel_evaluations[which])
        proof = self.certificates[which]
        return Trace([Row(*counts, proof.primal, proof.dual, proof.gap)], self.tol)
