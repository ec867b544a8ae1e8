"""How good a solution provably is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, overload

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.by_name import ByName

SAYABLE_GAP = 0.5  # the relative gap beyond which a percentage says little, and a sentence says that it is loose

LARGEST_ROUNDING = 0.01  # the share of the value up to which an allowance for rounding leaves a certificate
ROUNDED = (
    "rounding may have changed the values by more than 1 %. Center and scale the features, for instance with "
    "sklearn.preprocessing.StandardScaler, or choose a smaller C"
)

FORMS: dict[str, Form] = {}
"""What values are certified, by name: each problem says what its own are."""


@dataclass(frozen=True)
class Form:
    """What the values of a certificate are.

    Attributes
    ----------
    name : str
        By which certificates know it.
    larger : bool
        Whether a larger value is better.
    sentence : callable
        Says what a certificate means, to a person.
    """

    name: str
    larger: bool
    sentence: Callable[[Certificate], str]

    def __post_init__(self) -> None:
        FORMS[self.name] = self


@dataclass(frozen=True)
class Certificate:
    """A proof that no solution beats `dual`, next to the value `primal` that was reached, whatever the solver did.

    Both hold in exact arithmetic: they include an allowance for the rounding of the sums that they were computed by.

    Attributes
    ----------
    primal : float
        The value reached.
    dual : float
        No solution has a better value: larger or smaller, by the form.
    why_not : str
        Why there is no certificate; empty where there is one. The two values may be there: then they are equal where
        the conditions of an optimum hold, but prove nothing.
    form : str
        What the values are, a name of `FORMS`: "slack", the margin at a slack, to be large; "C", the objective at a
        C, to be small; or those of another problem.
    provided : str
        On what condition, that nobody has checked, the proof rests; empty where there is none.

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
        """A value and its bound, each widened by what rounding may have done to it.

        Parameters
        ----------
        primal, dual : float
            Value and bound as they were computed.
        form, provided : str
            See the attributes.
        rounding : (float, float)
            By how much the exact value may be worse than `primal`, and the exact bound looser than `dual`. Where that
            is so much that the two would say nothing, there is no certificate.
        """
        worse = -1.0 if FORMS[form].larger else 1.0
        primal, dual = primal + worse * rounding[0], dual - worse * rounding[1]
        if not (math.isfinite(primal) and math.isfinite(dual)):
            return cls.missing("the objective is not finite: scale the features, or choose a C nearer to 1")
        size = max(abs(primal), abs(dual))
        if sum(rounding) > LARGEST_ROUNDING * size:
            return cls(primal, dual, ROUNDED, form, provided)
        # The value cannot beat the exact bound: where it seems to, it is their allowances that overlap.
        return cls(primal, (max if FORMS[form].larger else min)(dual, primal), form=form, provided=provided)

    @classmethod
    def missing(cls, why_not: str) -> Certificate:
        """The absence of a certificate, with its reason."""
        return cls(math.nan, math.nan, why_not)

    @property
    def gap(self) -> float:
        """How far `primal` can be from the best possible value, at most."""
        return abs(self.dual - self.primal)

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the larger of the two values."""
        size = max(abs(self.primal), abs(self.dual))
        return self.gap / size if size > 0 else self.gap

    @property
    def score(self) -> float:
        """The value reached, with a sign that makes more be better; where it proves nothing, how small the gap is."""
        if self.why_not:
            return -self.gap
        return self.primal if FORMS[self.form].larger else -self.primal

    def tightened(self, other: Certificate) -> Certificate:
        """The same value with the better of two bounds: a bound once proved stays proved."""
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
    """The certificates of the binary problems of one fit; together they claim what the loosest of them claims.

    Parameters
    ----------
    certificates : mapping of str to Certificate
        By the name of the binary problem, such as "3 against 5".

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
        """The name of the binary problem with the largest relative gap; one without a certificate comes first."""
        return max(self._by_name.items(), key=lambda item: _looseness(item[1]))[0]

    @property
    def relative_gap(self) -> float:
        """The largest relative gap; infinite where a binary problem has no certificate."""
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
    """Values and bounds of many problems, and by how much rounding may have changed them."""

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
    """The certificates of many problems from a column for each quantity; each is made when it is asked for.

    Attributes
    ----------
    value, bound : arrays of shape (n_problems,)
        As they were computed.
    value_rounding, bound_rounding : arrays of shape (n_problems,)
        By how much the exact value may be worse, and the exact bound looser.
    form : str
        What the values are, a name of `FORMS`.
    provided : str
        On what condition the proofs rest.
    why_not : str
        Why none of them is a proof; empty where they are.
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
        """The certificates of objectives that are not negative: no bound need be below 0."""
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
