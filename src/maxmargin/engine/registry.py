"""The table of all solvers by name, from which the estimators, the command, the common tests and the docs choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from maxmargin.engine.problem import Problem, Trait

if TYPE_CHECKING:
    from maxmargin.engine.solver import AnySolver

_registered: dict[tuple[str, bool], type[AnySolver]] = {}  # by name and by whether the solver reads kernel rows
_on_demand: list[Callable[[], None]] = []  # functions that define more solvers, until they are called


def defined_on_demand(define: Callable[[], None]) -> Callable[[], None]:
    """Decorate a function that defines more solvers: it is called before solvers are first looked up."""
    _on_demand.append(define)
    return define


def _all_registered() -> dict[tuple[str, bool], type[AnySolver]]:
    for define in list(_on_demand):
        define()
        # Removed only now: if `define` fails, it is called again next time.
        _on_demand[:] = [other for other in _on_demand if other is not define]
    return _registered


def register(solver: type[AnySolver]) -> None:
    """Add a solver under its name. The same class may be defined again, as in a notebook.

    Raises
    ------
    TypeError
        If the solver does not state which problem it solves.
    ValueError
        If the name belongs to another solver.
    """
    if not hasattr(solver, "solves"):
        raise TypeError(f"{solver.__qualname__} must state which problem it solves, e.g. `solves = SlackSVM`")
    key = solver.name, Trait.KERNEL in solver.requires
    own = solver.__module__.startswith("maxmargin.")
    taken = (_registered if own else _all_registered()).get(key)
    if taken is not None and (taken.__module__, taken.__qualname__) != (solver.__module__, solver.__qualname__):
        raise ValueError(
            f"the name {solver.name!r} belongs to {taken.__module__}.{taken.__qualname__} already; give "
            f"{solver.__qualname__} a name of its own, or none to leave it out of the table"
        )
    _registered[key] = solver


def _by_name() -> list[tuple[tuple[str, bool], type[AnySolver]]]:
    """All solvers in the order of their names; the order of their definitions depends on what was used first."""
    return sorted(_all_registered().items(), key=lambda item: item[0])


class SolverTable(Mapping[str, "type[AnySolver]"]):
    """Some of the registered solvers by name, including solvers that are defined later.

    Parameters
    ----------
    wanted : callable
        Decides whether a solver belongs to the table.
    """

    def __init__(self, wanted: Callable[[type[AnySolver]], bool]) -> None:
        self._wanted = wanted

    def __getitem__(self, name: str) -> type[AnySolver]:
        for kernel in (False, True):
            solver = _all_registered().get((name, kernel))
            if solver is not None and self._wanted(solver):
                return solver
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for (name, _), solver in _by_name() if self._wanted(solver))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<solvers: {', '.join(self)}>"


def solvers_for(problem: Problem) -> list[str]:
    """The names of the solvers that take a problem."""
    return [name for (name, _), solver in _by_name() if not solver.why_not(problem)]


def online_solvers() -> list[str]:
    """The names of the solvers that can continue with other rows."""
    return sorted(solver.name for solver in _all_registered().values() if solver.online)
