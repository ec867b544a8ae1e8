"""A mapping from names of binary problems to values, which can make names and values when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

T = TypeVar("T")


class ByName(Mapping[str, T]):
    """A read-only mapping of names to values, both in the order of the problems.

    Parameters
    ----------
    names : sequence of str
        The names, all different. The sequence may make each name when it is asked for.
    values : sequence
        The value of each name. The sequence may make each value when it is asked for.

    Examples
    --------
    >>> from maxmargin.engine.by_name import ByName
    >>> gaps = ByName(["0 against 1", "0 against 2"], [0.1, 0.2])
    >>> gaps["0 against 2"], gaps.values_in_order[0]
    (0.2, 0.1)
    """

    def __init__(self, names: Sequence[str], values: Sequence[T]) -> None:
        if len(names) != len(values):
            raise ValueError(f"expected as many values as names; got {len(values)} and {len(names)}")
        self.names, self.values_in_order = names, values

    @classmethod
    def of(cls, mapping: Mapping[str, T]) -> ByName[T]:
        """The same mapping as a `ByName`; a `ByName` is returned as it is."""
        return mapping if isinstance(mapping, ByName) else cls(tuple(mapping), tuple(mapping.values()))

    def __getitem__(self, name: str) -> T:
        return self.values_in_order[self._positions[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self.names)}
