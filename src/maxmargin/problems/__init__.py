"""What is solved: values, dual bounds and certificates, and nothing about how."""

from maxmargin.problems.ball import EnclosingBall
from maxmargin.problems.certificate import Certificate, Certificates
from maxmargin.problems.convert import certify_C, equivalent_C, equivalent_slack, reached_slack
from maxmargin.problems.eigen import factor
from maxmargin.problems.expansion import Expansion, length
from maxmargin.problems.kernel_matrix import KernelMatrix
from maxmargin.problems.kernels import Kernel, make_kernel
from maxmargin.problems.losses import LOSSES, Hinge, Loss, SquaredHinge
from maxmargin.problems.margin import MarginProblem
from maxmargin.problems.max_min import MaxMin
from maxmargin.problems.problem import Evaluation, Problem, Solution
from maxmargin.problems.regularized import RegularizedSVM
from maxmargin.problems.sdp import SemidefiniteProgram
from maxmargin.problems.semidefinite import SemidefiniteFeasibility
from maxmargin.problems.slack import SlackSVM

__all__ = [
    "LOSSES",
    "Certificate",
    "Certificates",
    "EnclosingBall",
    "Evaluation",
    "Expansion",
    "Hinge",
    "Kernel",
    "KernelMatrix",
    "Loss",
    "MarginProblem",
    "MaxMin",
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
