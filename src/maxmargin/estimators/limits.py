"""The limits of a whole fit, shared among its binary problems."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from operator import floordiv, truediv

LONGEST = 1e18  # seconds; a longer `max_time` is no limit


class Deadline:
    """When a fit has to end: `max_time` seconds after it began.

    Parameters
    ----------
    max_time : float or None
        None: never.
    began : float or None
        When it began, by `time.perf_counter`; None: now.
    """

    def __init__(self, max_time: float | None, began: float | None = None) -> None:
        if began is None:
            began = time.perf_counter()
        self.at = math.inf if max_time is None or max_time > LONGEST else began + max_time

    @property
    def passed(self) -> bool:
        """Whether the time is up."""
        return time.perf_counter() >= self.at

    @property
    def never(self) -> bool:
        """Whether there is no limit."""
        return math.isinf(self.at)

    def seconds_left(self) -> float:
        """The seconds until then; a tiny number where the time is up, as a limit must be positive."""
        return max(self.at - time.perf_counter(), 1e-9)

    def share(self, size: int, waiting: int, threads: int) -> float | None:
        """The seconds for a problem of so many samples, where all that wait have `waiting` samples together.

        As many problems run at once as there are threads. What one problem leaves over goes to those that come after
        it. None: there is no limit.
        """
        if self.never:
            return None
        # A solver accepts a positive time only, and makes one iteration in any case.
        return self.seconds_left() * min(1.0, threads * size / waiting)


def budget_shares(budget: float | None, sizes: Sequence[int]) -> list[float | None]:
    """A budget shared among binary problems in proportion to their numbers of samples; together they never exceed it.

    A whole number, of entries for instance, is shared in whole numbers.
    What one problem leaves over is not given to another: which one would get it depends on the order in which threads
    finish, and the same seed must give the same model.

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
            f"budget={budget:,} is shared by {len(sizes):,} binary problems and leaves some of them nothing; give more"
        )
    return list(shares)
