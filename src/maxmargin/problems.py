"""Problems: their values, dual bounds and certificates, independent of the solvers."""

from typing import TYPE_CHECKING

from maxmargin.core.lazy import imported_on_use

if TYPE_CHECKING:
    from maxmargin.ball.problem import BallEvaluation, MinimumEnclosingBall
    from maxmargin.engine.certificate import Certificate, Certificates
    from maxmargin.engine.problem import Evaluation, Problem, Solution, length
    from maxmargin.game.max_min import MaxMin
    from maxmargin.kernels.expansion import Expansion
    from maxmargin.kernels.functions import Kernel, make_kernel
    from maxmargin.kernels.matrix import KernelMatrix
    from maxmargin.sdp.eigen import factor
    from maxmargin.sdp.feasibility import SemidefiniteFeasibility
    from maxmargin.sdp.program import SemidefiniteProgram
    from maxmargin.svm.convert import certify_C, equivalent_C, equivalent_slack, reached_slack
    from maxmargin.svm.losses import LOSSES, Hinge, Loss, SquaredHinge
    from maxmargin.svm.margin import MarginEvaluation, MarginProblem
    from maxmargin.svm.regularized import RegularizedSVM
    from maxmargin.svm.slack import SlackSVM

_HOMES = {
    "maxmargin.ball.problem": "BallEvaluation MinimumEnclosingBall",
    "maxmargin.engine.certificate": "Certificate Certificates",
    "maxmargin.engine.problem": "Evaluation Problem Solution length",
    "maxmargin.game.max_min": "MaxMin",
    "maxmargin.kernels.expansion": "Expansion",
    "maxmargin.kernels.functions": "Kernel make_kernel",
    "maxmargin.kernels.matrix": "KernelMatrix",
    "maxmargin.sdp.eigen": "factor",
    "maxmargin.sdp.feasibility": "SemidefiniteFeasibility",
    "maxmargin.sdp.program": "SemidefiniteProgram",
    "maxmargin.svm.convert": "certify_C equivalent_C equivalent_slack reached_slack",
    "maxmargin.svm.losses": "LOSSES Hinge Loss SquaredHinge",
    "maxmargin.svm.margin": "MarginEvaluation MarginProblem",
    "maxmargin.svm.regularized": "RegularizedSVM",
    "maxmargin.svm.slack": "SlackSVM",
}
__getattr__, __dir__ = imported_on_use("maxmargin.problems", _HOMES)

__all__ = [
    "LOSSES",
    "BallEvaluation",
    "Certificate",
    "Certificates",
    "Evaluation",
    "Expansion",
    "Hinge",
    "Kernel",
    "KernelMatrix",
    "Loss",
    "MarginEvaluation",
    "MarginProblem",
    "MaxMin",
    "MinimumEnclosingBall",
    "Problem",
    "RegularizedSVM",
    "SemidefiniteFeasibility",
    "SemidefiniteProgram",
    "SlackSVM",
    "Solution",
    "SquaredHinge",
    "certify_C",
    "equivalent_C",
    "equivalent_slack",
    "factor",
    "length",
    "make_kernel",
    "reached_slack",
]
