"""How problems are solved: one file an algorithm, one loop for all of them."""

from maxmargin.solvers.auto import auto_solver
from maxmargin.solvers.base import KERNEL_SOLVERS, SOLVERS, TOOLBOX, Learned, Solver
from maxmargin.solvers.batch_perceptron import BatchPerceptron
from maxmargin.solvers.core_set import CoreSet
from maxmargin.solvers.decomposition import Decomposition
from maxmargin.solvers.for_C import solve_for_C
from maxmargin.solvers.for_sdp import SdpAnswer, SdpResult, SdpTry, solve_sdp
from maxmargin.solvers.hybrid import Hybrid
from maxmargin.solvers.interrupt import NoModelYet, listen_for_interrupt
from maxmargin.solvers.kernel_pegasos import KernelPegasos
from maxmargin.solvers.kernel_perceptron import KernelPerceptron
from maxmargin.solvers.kernel_sdca import KernelSdca
from maxmargin.solvers.kernel_sublinear_perceptron import KernelSublinearPerceptron
from maxmargin.solvers.loop import Holdout, Progress, Result, solve
from maxmargin.solvers.newton import Newton
from maxmargin.solvers.online import OnlineSolver
from maxmargin.solvers.pegasos import Pegasos
from maxmargin.solvers.perceptron import Perceptron
from maxmargin.solvers.players import ExponentiatedGradient, LazyGradient, Player, RunningMean
from maxmargin.solvers.primal_dual import PrimalDual
from maxmargin.solvers.sdca import Sdca
from maxmargin.solvers.simba import Simba
from maxmargin.solvers.smo import Smo
from maxmargin.solvers.stochastic_batch_perceptron import StochasticBatchPerceptron
from maxmargin.solvers.stochastic_gradient import StochasticGradient
from maxmargin.solvers.sublinear_ball import SublinearBall
from maxmargin.solvers.sublinear_perceptron import SublinearPerceptron
from maxmargin.solvers.sublinear_sdp import SublinearSdp, decide, decided
from maxmargin.solvers.trace import Row, Trace, Traces

__all__ = [
    "KERNEL_SOLVERS",
    "SOLVERS",
    "TOOLBOX",
    "BatchPerceptron",
    "CoreSet",
    "Decomposition",
    "ExponentiatedGradient",
    "Holdout",
    "Hybrid",
    "KernelPegasos",
    "KernelPerceptron",
    "KernelSdca",
    "KernelSublinearPerceptron",
    "LazyGradient",
    "Learned",
    "Newton",
    "NoModelYet",
    "OnlineSolver",
    "Pegasos",
    "Perceptron",
    "Player",
    "PrimalDual",
    "Progress",
    "Result",
    "Row",
    "RunningMean",
    "Sdca",
    "SdpAnswer",
    "SdpResult",
    "SdpTry",
    "Simba",
    "Smo",
    "Solver",
    "StochasticBatchPerceptron",
    "StochasticGradient",
    "SublinearBall",
    "SublinearPerceptron",
    "SublinearSdp",
    "Trace",
    "Traces",
    "auto_solver",
    "decide",
    "decided",
    "listen_for_interrupt",
    "solve",
    "solve_for_C",
    "solve_sdp",
]
