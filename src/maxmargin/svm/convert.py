r"""Conversion between the slack form and the regularised form of the SVM, by Lemma 2.1.

The slack form asks for the largest margin :math:`\gamma` at a mean slack :math:`\nu`; the regularised form for the
least :math:`\frac12|w|^2 + C\sum_i s_i\,[1 - y_i(\langle w, x_i\rangle + b)]_+`. For one direction w, the second is
:math:`\frac{1}{2\gamma^2} + C\frac{V}{\gamma}` with :math:`V = \nu\sum s_i`, for w scaled to norm :math:`1/\gamma`
(Lemma 2.1 of Hazan, Koren and Srebro 2011). Setting its derivative in V to zero gives
:math:`C = \max_i(p_i/s_i) \,/\, (\gamma \sum_i p_i c_i)`, with p the weights of the wet samples and c their responses.

From C to slack the conversion is exact for the given direction, hence at the optimum of either form. From slack to C
it is exact at the optimum if p is the dual optimum. Weights on the wet samples alone miss the part of p on samples
exactly at the margin: they give the largest C for which this direction has this slack.
"""

from __future__ import annotations

import math

import numpy as np

from maxmargin.core.line_search import least
from maxmargin.core.rounding import SUM_ROUNDINGS, relative_error
from maxmargin.core.types import Point, Vector
from maxmargin.engine.certificate import Certificate
from maxmargin.engine.problem import length
from maxmargin.svm.margin import MarginEvaluation
from maxmargin.svm.regularized import RegularizedSVM
from maxmargin.svm.slack import SlackSVM


def equivalent_C(problem: SlackSVM, at: MarginEvaluation, p: Vector | None = None) -> float:
    """The C for which the evaluated direction, rescaled by Lemma 2.1, has the right length.

    `p` is a dual optimum if one is known (balanced between the classes, with a bias); otherwise the weights of the wet
    samples are used. The result is infinite if the margin is not positive.
    """
    p = at.wet if p is None else p
    pull = at.value * float(p @ at.responses)
    if at.value <= 0 or pull <= 0:
        return math.inf
    return problem.cap(p) / pull / problem.scale**2


def equivalent_slack(problem: SlackSVM, at: MarginEvaluation, C: float) -> float:
    """The slack at which the evaluated direction, rescaled by Lemma 2.1, is best for C: inverts `equivalent_C`."""
    scaled_C = C * problem.scale**2
    total = float(problem.s.sum())

    def objective(log_slack: float) -> float:
        slack = math.exp(log_slack)
        margin = problem.with_slack(slack).evaluate_responses(at.w, at.responses).value
        if margin <= 0:
            return math.inf
        inverse = 1 / margin  # its square may be infinite, without an error
        return 0.5 * inverse * inverse + scaled_C * slack * total * inverse

    # The objective is convex in 1 / margin, which falls as the slack grows: it is unimodal.
    size = float(np.abs(at.responses).max()) or 1.0
    log_slack, _ = least(objective, math.log(1e-9 * size), math.log(1e3 * size), 1e-4)
    return math.exp(log_slack)


def reached_slack(problem: RegularizedSVM, at: MarginEvaluation) -> float:
    """The slack that an evaluated point of the regularised form has by Lemma 2.1: its mean hinge loss over |w|.

    It is in the units of the data. With the hinge loss, the slack form with this slack has the same optimum. With
    another loss it is only the mean amount by which the samples fall short of the margin.
    """
    assert at.sums is not None
    norm = length(at.w)
    return at.sums.shortfall / float(problem.s.sum()) / norm if norm > 0 else math.inf


def certify_C(problem: SlackSVM, at: MarginEvaluation, p: Vector, C: float, v: Point | None = None) -> Certificate:
    r"""How good the evaluated direction, rescaled by Lemma 2.1, is for C: the objective reached and a lower bound.

    The bound is the best one along the ray of p in the dual of the regularised form: :math:`\alpha = tp` with
    :math:`t \le C / \max_i(p_i/s_i)` has the value :math:`t - \frac12 t^2 |\sum_i p_i y_i x_i|^2`. `v` is that
    sum, if it is known.
    """
    scaled_C = C * problem.scale**2
    p, v = problem.dual_point(p, v)
    lost, looser = problem.rounding(at, (p, v))
    square = problem.largest_square(at.w)
    if at.value > 0:
        primal = 0.5 * square / at.value**2 + scaled_C * (problem.volume + lost * float(problem.s.sum())) / at.value
    else:  # then w is not rescaled
        hinge = np.maximum(0.0, 1.0 - at.responses - problem.y * at.b + lost)
        primal = 0.5 * square + scaled_C * float(problem.s @ hinge)
    size = length(v) + looser
    t = scaled_C / problem.cap(p)
    t = min(t, 1 / size**2) if size > 0 else t
    dual = t - 0.5 * t**2 * size**2
    sums = relative_error(2 * problem.y.size + SUM_ROUNDINGS)
    # The bound loses sum p_i y_i times the best bias.
    imbalance = problem.imbalance(p) * (1 + math.sqrt(2 * primal)) if problem.bias else 0.0
    return problem.proof(
        float(primal / problem.scale**2),
        float(dual / problem.scale**2),
        "C",
        at.w,
        v,
        rounding=(float(sums * primal / problem.scale**2), float(t * (sums + imbalance) / problem.scale**2)),
    )
