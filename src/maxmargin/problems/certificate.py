"""How good a solution provably is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

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
    def proved(cls, primal: float, dual: float, form: str = "slack", provided: str = "") -> Certificate:
        """A value and its bound; rounding may have put that a hair on the wrong side of the value that it bounds."""
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


def _margin(at: Certificate) -> str:
    if at.dual <= 0:
        return f"no positive margin exists at this slack (at most {at.dual:.3g}): allow more slack"
    if at.primal <= 0:
        return f"the margin reached is not positive; the best possible at this slack is at most {at.dual:.3g}"
    return f"the margin is within {100 * at.relative_gap:.2g} % of the best possible at this slack"


def _objective(at: Certificate) -> str:
    if at.relative_gap <= 0.5:
        return f"the objective is within {100 * at.relative_gap:.2g} % of the best possible at this C"
    times = f"{at.primal / at.dual:.2g} times" if at.dual > 0 else "any number of times"
    return f"loose: the objective may be {times} the best possible at this C; a longer run would tell more"


SLACK, C = Form("slack", True, _margin), Form("C", False, _objective)
