"""The limits of a whole fit, shared among its binary problems."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from operator import floordiv, truediv

LONGEST = 1e18  # seconds; a longer `max_time` is no limit


class Deadline:
    """The time at which a fit must end: `max_time` seconds after it began.

    Parameters
    ----------
    max_time : float or None
        The time limit in seconds; None means no limit.
    began : float or None
        The time at which the fit began, by `time.perf_counter`; None means now.
    """

    def __init__(self, max_time: float | None, began: float | None = None) -> None:
        if began is None:
            began = time.perf_counter()
        self.at = math.inf if max_time is None or max_time > LONGEST else began + max_time

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return time.perf_counter() >= self.at

    @property
    def never(self) -> bool:
        """Whether there is no limit."""
        return math.isinf(self.at)

    def seconds_left(self) -> float:
        """Return the seconds until the deadline; a tiny number if it has passed, because limits must be positive."""
        return max(self.at - time.perf_counter(), 1e-9)

    def share(self, size: int, waiting: int, threads: int) -> float | None:
        """Return the seconds for a problem of `size` samples, if all waiting problems together have `waiting` samples.

        As many problems run at once as there are threads. Time that one problem does not use goes to later ones. None
        means no limit.
        """
        if self.never:
            return None
        # A solver accepts only a positive time, and always makes one iteration.
        return self.seconds_left() * min(1.0, threads * size / waiting)


def budget_shares(budget: float | None, sizes: Sequence[int]) -> list[float | None]:
    """Divide a budget among binary problems in proportion to their numbers of samples; the sum never exceeds it.

    A whole number, for example of entries, is divided into whole numbers. What one problem does not use is not given to
    another, because the receiver would depend on the order in which threads finish, and the same seed must give the
    same model.

    Examples
    --------
    >>> from maxmargin.estimators.limits import budget_shares
    >>> budget_shares(100, [300, 100])
    [75, 25]
    >>> budget_shares(0.5, [300, 100])
    [0.375, 0.125]
    """
    if budget is None:
        return [None] * len(sizes)
    total = sum(sizes)
    divide = truediv if isinstance(budget, float) else floordiv
    shares = [divide(budget * size, total) for size in sizes]
    if min(shares) == 0:
        raise ValueError(
            f"budget={budget:,} is too small to be shared by {len(sizes):,} binary problems: some get nothing; give "
            "a larger budget"
        )
    return list(shares)
