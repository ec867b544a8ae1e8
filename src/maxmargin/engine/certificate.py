"""How good a solution provably is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.by_name import ByName

SAYABLE_GAP = 0.5  # largest relative gap that is printed as a percentage; a larger one is printed as "loose"

LARGEST_ROUNDING = 0.01  # largest allowance for rounding, as a share of the value; beyond it nothing is certified
ROUNDED = (
    "rounding may have changed the values by more than 1 %. Center and scale the features, for instance with "
    "sklearn.preprocessing.StandardScaler, or choose a smaller C"
)

FORMS: dict[str, Form] = {}
"""The forms of certificates by name; the module of each problem adds its own."""


@dataclass(frozen=True)
class Form:
    """What the values of a certificate mean, e.g. the margin at a slack.

    Attributes
    ----------
    name : str
        The name that certificates refer to it by.
    larger : bool
        Whether a larger value is better.
    sentence : callable
        Turns a certificate into a sentence for people.
    """

    name: str
    larger: bool
    sentence: Callable[[Certificate], str]

    def __post_init__(self) -> None:
        FORMS[self.name] = self


@dataclass(frozen=True)
class Certificate:
    """The value `primal` of a solution, and a proof that no solution has a better value than `dual`.

    The proof does not depend on how the solver worked. Both numbers hold in exact arithmetic, because they include an
    allowance for the rounding of the sums from which they were computed.

    Attributes
    ----------
    primal : float
        The value of the solution.
    dual : float
        A bound that no solution can beat; `form` says whether larger or smaller values are better.
    why_not : str
        Why nothing is proved; empty if there is a proof. `primal` and `dual` may be set nevertheless: they are then
        equal if the optimality conditions hold, but prove nothing.
    form : str
        What the values mean, a name of `FORMS`: "slack" for the margin at a slack (larger is better), "C" for the
        objective at a C (smaller is better), or the name of another problem's form.
    provided : str
        An unchecked condition on which the proof rests; empty if there is none.

    Examples
    --------
    >>> from maxmargin.problems import Certificate
    >>> print(Certificate(primal=0.1, dual=0.1008))
    the margin is within 0.79 % of the best possible at this slack
    """

    primal: float
    dual: float
    why_not: str = ""
    form: str = "slack"
    provided: str = ""

    @classmethod
    def proved(
        cls,
        primal: float,
        dual: float,
        form: str = "slack",
        provided: str = "",
        *,
        rounding: tuple[float, float] = (0.0, 0.0),
    ) -> Certificate:
        """A certificate of a value and its bound, each of them loosened by what rounding may have changed.

        Parameters
        ----------
        primal, dual : float
            Value and bound as computed.
        form, provided : str
            See the attributes of the class.
        rounding : (float, float)
            How much worse than `primal` the exact value may be, and how much looser than `dual` the exact bound. If the
            sum exceeds 1 % of the larger of the two, nothing is certified.
        """
        worse = -1.0 if FORMS[form].larger else 1.0
        primal, dual = primal + worse * rounding[0], dual - worse * rounding[1]
        if not (math.isfinite(primal) and math.isfinite(dual)):
            return cls.missing("the objective is not finite: scale the features, or choose a C nearer to 1")
        size = max(abs(primal), abs(dual))
        if sum(rounding) > LARGEST_ROUNDING * size:
            return cls(primal, dual, ROUNDED, form, provided)
        # No value beats the exact bound: if `primal` seems to, the allowances of the two overlap.
        return cls(primal, (max if FORMS[form].larger else min)(dual, primal), form=form, provided=provided)

    @classmethod
    def missing(cls, why_not: str) -> Certificate:
        """A certificate that proves nothing, and says why."""
        return cls(math.nan, math.nan, why_not)

    @property
    def gap(self) -> float:
        """The largest possible distance of `primal` from the best value."""
        return abs(self.dual - self.primal)

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the larger absolute value of `primal` and `dual`."""
        size = max(abs(self.primal), abs(self.dual))
        return self.gap / size if size > 0 else self.gap

    @property
    def score(self) -> float:
        """The value, with the sign changed if smaller is better; if nothing is proved, minus the gap."""
        if self.why_not:
            return -self.gap
        return self.primal if FORMS[self.form].larger else -self.primal

    def tightened(self, other: Certificate) -> Certificate:
        """This certificate with the better of its own bound and that of `other`, which holds for the same problem."""
        if not (self and other):
            return self
        best = min if FORMS[self.form].larger else max
        return Certificate.proved(self.primal, best(self.dual, other.dual), self.form, self.provided)

    def __bool__(self) -> bool:
        return not self.why_not

    def __str__(self) -> str:
        if self.why_not:
            return f"not certified: {self.why_not}"
        return FORMS[self.form].sentence(self) + (f" (provided that {self.provided})" if self.provided else "")


class Certificates(Sequence[Certificate]):
    """The certificates of the binary problems of one fit. Their common claim is that of the loosest certificate.

    Parameters
    ----------
    certificates : mapping of str to Certificate
        The certificate of each binary problem, by the name of the problem, such as "3 against 5".

    Examples
    --------
    >>> from maxmargin.problems import Certificate, Certificates
    >>> print(Certificates({"1 against 2": Certificate(1.0, 0.9995, form="C"), "1 against 3": Certificate(2.0, 2.0)}))
    all 2 within 0.05 % of the best possible; the loosest: 1 against 2
    """

    def __init__(self, certificates: Mapping[str, Certificate]) -> None:
        self._by_name = ByName.of(certificates)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the binary problems."""
        return tuple(self._by_name)

    @property
    def loosest(self) -> str:
        """The name of the binary problem with the largest relative gap; a missing certificate counts as infinite."""
        return max(self._by_name.items(), key=lambda item: _looseness(item[1]))[0]

    @property
    def relative_gap(self) -> float:
        """The largest relative gap; infinite if a binary problem has no certificate."""
        return max(map(_looseness, self))

    @overload
    def __getitem__(self, which: int | str) -> Certificate: ...
    @overload
    def __getitem__(self, which: slice) -> Certificates: ...
    def __getitem__(self, which: int | str | slice) -> Certificate | Certificates:
        if isinstance(which, str):
            return self._by_name[which]
        names, certificates = self._by_name.names, self._by_name.values_in_order
        return (
            Certificates(ByName(names[which], certificates[which])) if isinstance(which, slice) else certificates[which]
        )

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Certificate]:
        return iter(self._by_name.values_in_order)

    def __bool__(self) -> bool:
        return all(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificates) and self._by_name == other._by_name

    def __str__(self) -> str:
        missing = [name for name, certificate in self._by_name.items() if not certificate]
        if missing:
            return f"{len(missing)} of {len(self)} not certified; the first, {missing[0]}: {self[missing[0]].why_not}"
        gap, loosest = self.relative_gap, self.loosest
        if gap > SAYABLE_GAP or any(certificate.primal <= 0 for certificate in self):
            return f"the loosest of {len(self)}, {loosest}: {self[loosest]}"
        return f"all {len(self)} within {100 * gap:.2g} % of the best possible; the loosest: {loosest}"

    def __repr__(self) -> str:
        return f"<Certificates: {self}>"


class Objectives(Protocol):
    """Values and bounds of many problems, and how much rounding may have changed each."""

    @property
    def value(self) -> Vector: ...
    @property
    def bound(self) -> Vector: ...
    @property
    def value_rounding(self) -> Vector: ...
    @property
    def bound_rounding(self) -> Vector: ...


@dataclass(frozen=True)
class CertificateColumns(Sequence[Certificate]):
    """The certificates of many problems, stored as one array per quantity; each is made when it is asked for.

    Attributes
    ----------
    value, bound : arrays of shape (n_problems,)
        Value and bound of each problem, as computed.
    value_rounding, bound_rounding : arrays of shape (n_problems,)
        How much worse each exact value may be, and how much looser each exact bound.
    form : str
        What the values mean, a name of `FORMS`.
    provided : str
        An unchecked condition on which all proofs rest; empty if there is none.
    why_not : str
        Why nothing is proved about any of the problems; empty if there are proofs.
    """

    value: Vector
    bound: Vector
    value_rounding: Vector
    bound_rounding: Vector
    form: str = "C"
    provided: str = ""
    why_not: str = ""

    @classmethod
    def of_objectives(cls, computed: Objectives, provided: str = "", why_not: str = "") -> CertificateColumns:
        """The certificates of objectives that cannot be negative, so that 0 replaces any lower bound."""
        useless = computed.bound <= computed.bound_rounding
        bound, looser = np.where(useless, 0.0, computed.bound), np.where(useless, 0.0, computed.bound_rounding)
        return cls(computed.value, bound, computed.value_rounding, looser, provided=provided, why_not=why_not)

    def __len__(self) -> int:
        return self.value.size

    @overload
    def __getitem__(self, which: int) -> Certificate: ...
    @overload
    def __getitem__(self, which: slice) -> Sequence[Certificate]: ...
    def __getitem__(self, which: int | slice) -> Certificate | Sequence[Certificate]:
        if isinstance(which, slice):
            return [self[k] for k in range(*which.indices(len(self)))]
        value, bound = float(self.value[which]), float(self.bound[which])
        if self.why_not:
            return Certificate(value, bound, self.why_not, self.form)
        rounding = float(self.value_rounding[which]), float(self.bound_rounding[which])
        return Certificate.proved(value, bound, self.form, self.provided, rounding=rounding)


def _looseness(certificate: Certificate) -> float:
    return certificate.relative_gap if certificate else math.inf


def _margin(at: Certificate) -> str:
    if at.dual <= 0:
        return f"no positive margin exists at this slack (at most {at.dual:.3g}): allow more slack"
    if at.primal <= 0:
        return f"the margin reached is not positive; the best possible at this slack is at most {at.dual:.3g}"
    return f"the margin is within {100 * at.relative_gap:.2g} % of the best possible at this slack"


def _objective(at: Certificate) -> str:
    if at.relative_gap <= SAYABLE_GAP:
        return f"the objective is within {100 * at.relative_gap:.2g} % of the best possible at this C"
    times = f"{at.primal / at.dual:.2g} times" if at.dual > 0 else "any number of times"
    return f"loose: the objective may be {times} the best possible at this C; a longer run would tell more"


SLACK, C = Form("slack", True, _margin), Form("C", False, _objective)
