r"""Rounding errors of products with kernel rows: bounds for certificates, and when float32 is precise enough."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.core.rounding import SUM_ROUNDINGS, UNIT, relative_error, unit_roundoff
from maxmargin.core.types import Vector
from maxmargin.kernels.expansion import Expansion
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.packed_rows import SAFE_RANGE

# Rows are kept in float64 if rounding them to float32 could change a decision value by more than this many times the
# relative gap to be reached, assuming that all samples have the weight C. Few samples have it, and solvers recompute
# decision values in float64. So more is tolerated if the cache could not hold all rows in float64. MNIST at C = 1,000
# converges in float32 at a factor of 73; small data sets at C = 1,000 do not always converge at 100.
TOLERATED_ROUNDING, TOLERATED_IF_MEMORY_IS_SHORT = 20.0, 500.0
FINEST_TOL = 1e-6  # relative gaps below this do not make the choice of the precision stricter
# Two vectors count as multiples of each other if all entries agree up to this relative error. Their factor is enlarged
# by more than that error, so that a bound stays a bound.
MULTIPLE_RTOL, MULTIPLE_MARGIN = 1e-12, 1e-9


class SampleSizes(Protocol):
    """The properties of the samples of a kernel matrix on which bounds of rounding errors depend."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def d(self) -> int:
        """The number of features."""

    @property
    def sq_norms(self) -> Vector:
        """The squared norms of the samples, less the centre."""

    @property
    def centre(self) -> Vector | None:
        """The vector that is subtracted from each sample, if that changes kernels; else None."""


def float32_suffices(largest: float, weight: float, tol: float, *, float64_fits: bool) -> bool:
    """Whether rows may be kept in float32.

    Parameters
    ----------
    largest : float
        The largest kernel of a sample with itself.
    weight : float
        How much the rounding of an entry may change a decision value: the size of a typical sum of coefficients if
        entries are rounded up and down equally often.
    tol : float
        The relative gap to be reached.
    float64_fits : bool
        Whether the cache could hold all rows in float64.
    """
    least, most = SAFE_RANGE[4]
    in_range = largest == 0 or least < largest < most
    tolerated = (TOLERATED_ROUNDING if float64_fits else TOLERATED_IF_MEMORY_IS_SHORT) * max(tol, FINEST_TOL)
    return in_range and unit_roundoff(np.float32) * largest * weight <= tolerated


def product_error_bound(samples: SampleSizes, diagonal: Vector, beta: Vector, dtype: DTypeLike) -> Vector:
    r"""A bound on the rounding error of each product :math:`\sum_j \beta_j k(x_i, x_j)`.

    Parameters
    ----------
    samples : SampleSizes
        The samples and their kernel.
    diagonal : array of shape (n,)
        The kernel of each sample with itself.
    beta : array of shape (n,)
        The coefficients.
    dtype : data type
        The precision of the kernels. Sums are in float64.
    """
    size, terms = np.abs(beta), int(np.count_nonzero(beta))
    g, h = samples.kernel.rounding(samples.sq_norms, samples.d, unit_roundoff(dtype))
    norms = np.sqrt(np.abs(diagonal))
    summation = unit_roundoff(dtype) + relative_error(terms + SUM_ROUNDINGS)
    error = g * (g @ size) + 0.5 * (h * size.sum() + h @ size) + summation * norms * (norms @ size)
    centre = samples.centre
    if centre is not None:
        # The final model is not centred: its coefficients sum to 0 only up to rounding, and its bias is shifted.
        distance, sample_norms = float(np.linalg.norm(centre)), np.sqrt(samples.sq_norms)
        imbalance, longest = abs(math.fsum(beta)), float(sample_norms @ size)
        relative = relative_error(terms + samples.d + SUM_ROUNDINGS)
        error = error + imbalance * distance * sample_norms + relative * distance * (longest + imbalance * distance)
        error += imbalance * distance * (2 * longest + imbalance * distance) / max(float(size.sum()), UNIT)
    return np.asarray(error)


def factor_between(w: Expansion, other: Expansion) -> float | None:
    """The absolute factor by which w is a multiple of the other vector, rounded up; None if w is not a multiple."""
    largest = int(np.argmax(np.abs(other.beta)))
    if other.beta[largest] == 0:
        return None
    factor = float(w.beta[largest] / other.beta[largest])
    for ours, theirs in ((w.beta, other.beta), (w.f, other.f)):
        if not np.allclose(ours, factor * theirs, rtol=MULTIPLE_RTOL, atol=0.0, equal_nan=True):
            return None
    return abs(factor) * (1 + MULTIPLE_MARGIN)
