"""Conversion of objects to plain values and back, for checkpoints of runs.

The state of a solver is a graph of objects: arrays, numbers, dataclasses, compiled classes. :class:`Snapshot` walks
through the graph and makes a tree that JSON can hold, and a list of arrays. What two objects share is shared again
when they are restored. Objects that a run is *given*, such as the data, are stored by their names only.

How an object is stored:

- An object with the methods `kept()` and `of_kept()` decides itself what is stored.
- Of any other object, the attributes are stored; of a compiled class, the attributes that are declared `public`. If the
  object has a method `attach()`, it is called after the attributes are restored, to compute what was not stored, e.g.
  pointers.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from types import FunctionType, GetSetDescriptorType
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from maxmargin.engine.trace import Row, Trace

Array = NDArray[Any]
PLAIN = (bool, int, float, str, type(None))
SEQUENCES: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "deque": deque}
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


@runtime_checkable
class Keeps(Protocol):
    """An object that decides itself what a checkpoint keeps of it."""

    def kept(self) -> Mapping[str, Any]:
        """All that is needed to make an equal object."""

    @classmethod
    def of_kept(cls, kept: Mapping[str, Any]) -> Self:
        """Make the object again from what was kept."""


@runtime_checkable
class Remembers(Protocol):
    """Data that a run is given and that remembers something of what was read, e.g. in a cache."""

    def signature(self) -> Mapping[str, Any]:
        """What distinguishes the data from other data; see `maxmargin.engine.signature`."""

    def kept(self) -> Mapping[str, Any]:
        """What the data remembers."""

    def take(self, kept: Mapping[str, Any]) -> None:
        """Restore what was kept."""


@runtime_checkable
class HoldsCache(Remembers, Protocol):
    """Data that remembers, among other things, large parts that can be computed again."""

    def kept_without_cache(self) -> Mapping[str, Any]:
        """What the data remembers except those parts, to be saved when a run has ended."""


class CannotKeep(TypeError):
    """A run holds an object that a checkpoint cannot store."""


class Snapshot:
    """Converts objects to plain values.

    Parameters
    ----------
    given : mapping of str to object
        The objects that the run is given again when it is restored, by name.
    given_types : mapping of type to str
        Types whose objects are all stored as the given object of this name, because they stand for the same data.

    Attributes
    ----------
    arrays : list of arrays
        The arrays of all objects converted so far; plain values refer to them by position.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.engine.snapshot import Restored, Snapshot
    >>> both = Snapshot({})
    >>> v = np.arange(3.0)
    >>> tree = both.plain({"one": v, "other": v, "size": 3})
    >>> len(both.arrays)
    1
    >>> again = Restored({}, both.arrays).value(tree)
    >>> again["one"] is again["other"], again["size"]
    (True, 3)
    """

    def __init__(self, given: Mapping[str, object], given_types: Mapping[type, str] | None = None) -> None:
        self.arrays: list[Array] = []
        self._types = given_types or {}
        self._alive: list[object] = list(given.values())  # keeps the ids of known objects from being used again
        self._names = {id(value): name for name, value in given.items()}
        self._given_arrays = {_place(value): name for name, value in given.items() if isinstance(value, np.ndarray)}
        self._array_numbers: dict[tuple[Any, ...], int] = {}
        self._numbers: dict[int, int] = {}

    def plain(self, value: Any, where: str = "") -> Any:
        """The plain value of an object; `where` says in error messages where the object was found."""
        if isinstance(value, np.generic):
            return {"scalar": value.dtype.str, "value": value.item()}
        if isinstance(value, Enum):
            return {"enum": _name(type(value)), "name": value.name}
        if type(value) in PLAIN:
            return value
        if id(value) in self._names:
            return {"given": self._names[id(value)]}
        if type(value) in self._types:
            return {"given": self._types[type(value)]}
        if id(value) in self._numbers:
            return {"again": self._numbers[id(value)]}
        self._alive.append(value)
        if isinstance(value, np.ndarray) or _is_compiled_array(value):
            return self._array(np.asarray(value), where)
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, slice):
            return {"slice": [value.start, value.stop, value.step]}
        number = self._numbers[id(value)] = len(self._numbers)
        return {"id": number, **self._parts(value, where)}

    def _parts(self, value: Any, where: str) -> dict[str, Any]:
        kind = type(value).__name__
        if type(value) in SEQUENCES.values():
            more = {"maxlen": value.maxlen} if kind == "deque" else {}
            return {kind: [self.plain(item, f"{where}[{k}]") for k, item in enumerate(value)], **more}
        if type(value) is dict:
            return {
                "dict": [[self.plain(key, where), self.plain(of, f"{where}[{key!r}]")] for key, of in value.items()]
            }
        if isinstance(value, np.random.Generator):
            bits = value.bit_generator
            return {"generator": type(bits).__name__, "state": self.plain(bits.state, where)}
        if isinstance(value, np.random.RandomState):
            return {"random_state": self.plain(value.get_state(legacy=False), where)}
        if isinstance(value, Trace):
            columns = {name: value.column(name) for name in Row.__dataclass_fields__}
            return {"trace": self.plain(columns, where), "tol": value.tol}
        name = _name(type(value))
        if isinstance(value, (FunctionType, type)) or not _is_known(name):
            raise CannotKeep(f"{where} is {value!r}, which a checkpoint cannot hold: only plain values and dataclasses")
        if isinstance(value, Keeps):
            return {"object": name, "kept": self.plain(dict(value.kept()), where)}
        return {"object": name, "fields": {of: self.plain(field, f"{where}.{of}") for of, field in _fields(value)}}

    def _array(self, array: Array, where: str) -> dict[str, Any]:
        if array.dtype.hasobject:
            raise CannotKeep(f"{where} is an array of Python objects, which a checkpoint cannot hold")
        place = _place(array)
        if place in self._given_arrays:
            return {"given": self._given_arrays[place]}
        if place not in self._array_numbers:
            self._array_numbers[place] = len(self.arrays)
            self.arrays.append(array)
        return {"array": self._array_numbers[place]}


class Restored:
    """Converts plain values back to objects.

    Parameters
    ----------
    given : mapping of str to object
        The objects that the run is given, under the same names as when the snapshot was taken.
    arrays : list of arrays
        The arrays of the snapshot, which the objects will hold and change.
    """

    def __init__(self, given: Mapping[str, object], arrays: list[Array]) -> None:
        self._given, self._arrays = given, arrays
        self._made: dict[int, Any] = {}

    def value(self, tree: Any) -> Any:
        """The object of a plain value."""
        if not isinstance(tree, dict):
            return tree
        if "given" in tree:
            return self._given[tree["given"]]
        if "again" in tree:
            return self._made[tree["again"]]
        if "array" in tree:
            return self._arrays[tree["array"]]
        if "scalar" in tree:
            return np.dtype(tree["scalar"]).type(tree["value"])
        if "dtype" in tree:
            return np.dtype(tree["dtype"])
        if "slice" in tree:
            return slice(*tree["slice"])
        if "enum" in tree:
            return _class(tree["enum"])[tree["name"]]
        return self._object(tree)

    def _object(self, tree: dict[str, Any]) -> Any:
        if "object" in tree and "fields" in tree:
            kind = _class(tree["object"])
            made = self._made[tree["id"]] = kind.__new__(kind)
            for name, field in tree["fields"].items():
                object.__setattr__(made, name, self.value(field))
            attach = getattr(made, "attach", None)
            if attach is not None:
                attach()
            return made
        made = self._made[tree["id"]] = self._whole(tree)
        return made

    def _whole(self, tree: dict[str, Any]) -> Any:
        """An object that is made in one step from its parts, and so cannot contain itself."""
        if "object" in tree:
            return _class(tree["object"]).of_kept(self.value(tree["kept"]))
        if "dict" in tree:
            return {self.value(key): self.value(of) for key, of in tree["dict"]}
        if "generator" in tree:
            if tree["generator"] not in BIT_GENERATORS:
                raise CannotKeep(f"{tree['generator']} is no bit generator of NumPy")
            bits = getattr(np.random, tree["generator"])()
            bits.state = self.value(tree["state"])
            return np.random.Generator(bits)
        if "random_state" in tree:
            made = np.random.RandomState()
            made.set_state(self.value(tree["random_state"]))
            return made
        if "trace" in tree:
            columns = {name: column.tolist() for name, column in self.value(tree["trace"]).items()}
            rows = zip(*columns.values(), strict=True)
            return Trace([Row(**dict(zip(columns, row, strict=True))) for row in rows], tree["tol"])
        kind = next(kind for kind in SEQUENCES if kind in tree)
        items: Iterable[Any] = (self.value(item) for item in tree[kind])
        return deque(items, tree["maxlen"]) if kind == "deque" else SEQUENCES[kind](items)


def _place(array: Array) -> tuple[Any, ...]:
    """Where an array lies in memory; equal for two arrays that share all of their numbers."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def _is_compiled_array(value: object) -> bool:
    """Whether this is a memoryview, as compiled classes hold arrays."""
    return type(value).__name__ in ("_memoryviewslice", "memoryview")


def _fields(value: object) -> Iterator[tuple[str, Any]]:
    """The attributes of an object, except those that are made again when needed."""
    made_again = getattr(value, "made_again", ())
    yield from ((name, of) for name, of in getattr(value, "__dict__", {}).items() if name not in made_again)
    for name in _compiled_fields(type(value), value):
        yield name, getattr(value, name)


_COMPILED: dict[type, tuple[str, ...]] = {}


def _compiled_fields(kind: type, one: object) -> tuple[str, ...]:
    """The public attributes of a compiled class, i.e. those that can be set; tried by setting their own values."""
    if kind not in _COMPILED:
        members = [vars(base).items() for base in kind.__mro__ if base is not object]
        candidates = [name for base in members for name, of in base if isinstance(of, GetSetDescriptorType)]
        own = [name for name in candidates if not name.startswith("__")]
        _COMPILED[kind] = tuple(name for name in own if _can_be_set(one, name))
    return _COMPILED[kind]


def _can_be_set(value: object, name: str) -> bool:
    try:
        setattr(value, name, getattr(value, name))
    except AttributeError:
        return False
    return True


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _is_known(name: str) -> bool:
    """Whether objects of a class may be made: the class belongs to this library, or is a dataclass or an Enum."""
    found = _find(name)
    own = name.split(".")[0] == "maxmargin"
    return isinstance(found, type) and (own or is_dataclass(found) or issubclass(found, Enum))


def _class(name: str) -> Any:
    if not _is_known(name):
        raise CannotKeep(f"it holds a {name}, which is not defined here: import the module that defines it first")
    return _find(name)


@cache
def _find(name: str) -> Any:
    """A class by its name; imports only modules of this library."""
    module, _, path = name.partition(":")
    if module.split(".")[0] == "maxmargin":
        importlib.import_module(module)
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
