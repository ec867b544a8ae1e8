"""Solvers: one file for each algorithm, and one loop that runs all of them."""

from importlib import import_module
from typing import TYPE_CHECKING

from maxmargin.core.lazy import imported_on_use
from maxmargin.engine.problem import Trait
from maxmargin.engine.registry import SolverTable, defined_on_demand
from maxmargin.svm.margin import MarginProblem

if TYPE_CHECKING:
    from maxmargin.ball.core_set import CoreSet
    from maxmargin.ball.sublinear import SublinearBall
    from maxmargin.engine.checkpoint import Checkpoint
    from maxmargin.engine.checkpoint_file import CheckpointError
    from maxmargin.engine.interrupt import NoModelYet, listen_for_interrupt
    from maxmargin.engine.loop import Holdout, solve
    from maxmargin.engine.result import Progress, Result, Resume
    from maxmargin.engine.solver import Learned, Reason, Solver, Step
    from maxmargin.engine.stop_rules import StopRules
    from maxmargin.engine.trace import Row, Trace, Traces
    from maxmargin.game.players import ExponentiatedGradient, LazyGradient, Player, RunningMean
    from maxmargin.game.primal_dual import PrimalDual
    from maxmargin.sdp.bisection import SdpAnswer, SdpResult, SdpTry, solve_sdp
    from maxmargin.sdp.sublinear import SublinearSdp, decide, decided
    from maxmargin.svm.auto import auto_solver
    from maxmargin.svm.for_C import solve_for_C
    from maxmargin.svm.for_slack import solve_for_slack
    from maxmargin.svm.kernel.decomposition import Decomposition
    from maxmargin.svm.kernel.pegasos import KernelPegasos
    from maxmargin.svm.kernel.perceptron import KernelPerceptron
    from maxmargin.svm.kernel.sdca import KernelSdca
    from maxmargin.svm.kernel.smo import Smo
    from maxmargin.svm.kernel.stochastic_batch_perceptron import StochasticBatchPerceptron
    from maxmargin.svm.kernel.sublinear_perceptron import KernelSublinearPerceptron
    from maxmargin.svm.linear.batch_perceptron import BatchPerceptron
    from maxmargin.svm.linear.cocoa import Cocoa
    from maxmargin.svm.linear.hand_over import SdcaThenNewton
    from maxmargin.svm.linear.hybrid import Hybrid
    from maxmargin.svm.linear.newton import Newton
    from maxmargin.svm.linear.online import OnlineSolver
    from maxmargin.svm.linear.pegasos import Pegasos
    from maxmargin.svm.linear.perceptron import Perceptron
    from maxmargin.svm.linear.sdca import Sdca
    from maxmargin.svm.linear.simba import Simba
    from maxmargin.svm.linear.stochastic_gradient import StochasticGradient
    from maxmargin.svm.linear.sublinear_perceptron import SublinearPerceptron

_HOMES = {
    "maxmargin.ball.core_set": "CoreSet",
    "maxmargin.ball.sublinear": "SublinearBall",
    "maxmargin.engine.checkpoint": "Checkpoint",
    "maxmargin.engine.checkpoint_file": "CheckpointError",
    "maxmargin.engine.interrupt": "NoModelYet listen_for_interrupt",
    "maxmargin.engine.loop": "Holdout solve",
    "maxmargin.engine.result": "Progress Result Resume",
    "maxmargin.engine.solver": "Learned Reason Solver Step",
    "maxmargin.engine.stop_rules": "StopRules",
    "maxmargin.engine.trace": "Row Trace Traces",
    "maxmargin.game.players": "ExponentiatedGradient LazyGradient Player RunningMean",
    "maxmargin.game.primal_dual": "PrimalDual",
    "maxmargin.sdp.bisection": "SdpAnswer SdpResult SdpTry solve_sdp",
    "maxmargin.sdp.sublinear": "SublinearSdp decide decided",
    "maxmargin.svm.auto": "auto_solver",
    "maxmargin.svm.for_C": "solve_for_C",
    "maxmargin.svm.for_slack": "solve_for_slack",
    "maxmargin.svm.kernel.decomposition": "Decomposition",
    "maxmargin.svm.kernel.pegasos": "KernelPegasos",
    "maxmargin.svm.kernel.perceptron": "KernelPerceptron",
    "maxmargin.svm.kernel.sdca": "KernelSdca",
    "maxmargin.svm.kernel.smo": "Smo",
    "maxmargin.svm.kernel.stochastic_batch_perceptron": "StochasticBatchPerceptron",
    "maxmargin.svm.kernel.sublinear_perceptron": "KernelSublinearPerceptron",
    "maxmargin.svm.linear.batch_perceptron": "BatchPerceptron",
    "maxmargin.svm.linear.cocoa": "Cocoa",
    "maxmargin.svm.linear.hand_over": "SdcaThenNewton",
    "maxmargin.svm.linear.hybrid": "Hybrid",
    "maxmargin.svm.linear.newton": "Newton",
    "maxmargin.svm.linear.online": "OnlineSolver",
    "maxmargin.svm.linear.pegasos": "Pegasos",
    "maxmargin.svm.linear.perceptron": "Perceptron",
    "maxmargin.svm.linear.sdca": "Sdca",
    "maxmargin.svm.linear.simba": "Simba",
    "maxmargin.svm.linear.stochastic_gradient": "StochasticGradient",
    "maxmargin.svm.linear.sublinear_perceptron": "SublinearPerceptron",
}
__getattr__, __dir__ = imported_on_use("maxmargin.solvers", _HOMES)


@defined_on_demand
def _define_solvers() -> None:
    """Import the modules of all solvers, which registers them; called when a solver is first looked up by name."""
    for home in _HOMES:
        import_module(home)


SOLVERS = SolverTable(lambda solver: issubclass(solver.solves, MarginProblem) and Trait.KERNEL not in solver.requires)
"""The solvers of support vector machines on features, by name, including solvers that are defined later."""

KERNEL_SOLVERS = SolverTable(
    lambda solver: issubclass(solver.solves, MarginProblem) and Trait.KERNEL in solver.requires
)
"""The solvers of support vector machines on a kernel, by name, including solvers that are defined later."""

OTHER_SOLVERS = SolverTable(lambda solver: not issubclass(solver.solves, MarginProblem))
"""The solvers of all other problems, by name, including solvers that are defined later."""

__all__ = [
    "KERNEL_SOLVERS",
    "OTHER_SOLVERS",
    "SOLVERS",
    "BatchPerceptron",
    "Checkpoint",
    "CheckpointError",
    "Cocoa",
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
    "Reason",
    "Result",
    "Resume",
    "Row",
    "RunningMean",
    "Sdca",
    "SdcaThenNewton",
    "SdpAnswer",
    "SdpResult",
    "SdpTry",
    "Simba",
    "Smo",
    "Solver",
    "Step",
    "StochasticBatchPerceptron",
    "StochasticGradient",
    "StopRules",
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
    "solve_for_slack",
    "solve_sdp",
]
