"""Every solver with the problems that it takes, for the tests that all solvers share."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from maxmargin.engine.problem import Trait
from maxmargin.engine.solver import Reason
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import LOSSES, KernelMatrix, RegularizedSVM, SlackSVM
from maxmargin.solvers import (
    KERNEL_SOLVERS,
    SOLVERS,
    Decomposition,
    Hybrid,
    KernelPegasos,
    KernelPerceptron,
    KernelSdca,
    Newton,
    Pegasos,
    Perceptron,
    Simba,
    Smo,
    Solver,
    StochasticBatchPerceptron,
    SublinearPerceptron,
    solve,
)

# Every solver with its default parameters, and some solvers with parameters that run other code.
LINEAR = {name: solver() for name, solver in SOLVERS.items()} | {
    "pegasos, paper": Pegasos(order="iid", average=None),
    "pegasos, batch of 7, no projection, search": Pegasos(batch=7, project=False, free_bias="search"),
    "pegasos, batch of 20": Pegasos(batch=20, free_bias="batch", average=0.0),
    "pegasos, all rows": Pegasos(batch=None),
    "perceptron, last of one pass": Perceptron(passes=1, average=False, order="given"),
    "simba, paper": Simba(method="paper"),
    "simba, paper, 3 rows, 2 columns": Simba(method="paper", rows=3, columns=2),
    "simba, paper, constant rates": Simba(method="paper", eps=0.5),
    "simba, many columns": Simba(columns=4, average=0),
    "sublinear perceptron, few rounds": SublinearPerceptron(eps=0.9, constant=5),
    "newton, from a few rows": Newton(first=10),
    "hybrid, all at once, no shrinking": Hybrid("none", growth=math.inf),
}
KERNEL_VARIANTS = {
    "decomposition, parts": Decomposition(first=16, growth=2.0, block=8),
    "pegasos, paper": KernelPegasos(order="iid", average=None),
    "pegasos, batch of 7": KernelPegasos(batch=7, average=1.0),
    "perceptron, last of one pass": KernelPerceptron(passes=1, average=False, order="given"),
    "sdca, drawn": KernelSdca(order="iid"),
    "sbp, paper": StochasticBatchPerceptron(method="paper"),
    "sbp, one draw": StochasticBatchPerceptron(block=1, average=0.0),
    "smo, no shrinking": Smo(shrink=False),
}

N = 60  # samples of a problem, unless a test says otherwise
HARD = 1e9  # a large C; in the slack form, slack 0
BIASES = {"free": {}, "none": {"bias": False}, "penalised": {"intercept_scaling": 2.0}}


def clouds(n=N, d=6, distance=6.0, seed=0):
    """Two clouds in d dimensions, which a plane separates when they are far apart."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    return rng.normal(size=(n, d)) + distance / 2 / np.sqrt(d) * y[:, None], y


def moons(n=N, seed=0):
    """Two half moons in the plane, which no line separates."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 3 == 0, 1.0, -1.0)
    turn = np.pi * rng.random(n)
    X = np.column_stack([y * np.cos(turn) + (y > 0), y * np.sin(turn) + 0.5 * (y < 0)])
    return X + rng.normal(size=X.shape) * 0.2, y


@dataclass(frozen=True)
class Case:
    """A solver, and a problem for it: the slack form, or the regularised form with one of the losses."""

    solver: Solver
    loss: str | None = None  # of the regularised form; None: the slack form

    @property
    def sign(self):
        """1 if the value is maximised, -1 if it is minimised."""
        return 1 if self.loss is None else -1

    def solve(self, problem=None, **options):
        if self.solver.default_tol is not None:  # otherwise a run could end too early for the test
            options.setdefault("tol", -1.0)
        return solve(self.problem() if problem is None else problem, self.solver, **options)

    def last(self, problem, iterations):
        """The number of the last iteration of a run of at most `iterations`; the algorithm may end earlier."""
        return min(iterations, self.solver.iterations(problem) or iterations)

    def made(self, problem, iterations):
        """The number of iterations of such a run; it also ends early if only rounding is left."""
        return min(self.last(problem, iterations), settled_at(self))

    def other_form(self):
        """A problem on the same data that the solver does not solve."""
        problem = self.problem()
        return RegularizedSVM(problem.X, problem.y) if self.loss is None else SlackSVM(problem.X, problem.y, slack=0.0)


@cache
def settled_at(case):
    """The iteration after which only rounding is left, if it is one of the first hundred."""
    problem = case.problem()
    step = case.solver.step(problem, case.solver.start(problem, np.random.default_rng(0)), 100, UNLIMITED)
    return step.iterations if step.reason is Reason.SETTLED else math.inf


@dataclass(frozen=True)
class LinearCase(Case):
    data = staticmethod(clouds)
    rounding = 1e-12  # relative error of a value

    def problem(self, data=None, *, scale=None, strength=1.0, **options):
        """By default on two clouds. `strength` multiplies the weight of the losses: C, or the inverse of the slack."""
        X, y = clouds() if data is None else data
        if self.loss is not None:
            return RegularizedSVM(X, y, strength, loss=self.loss, **options)
        slack = 0.0 if (Trait.SEPARABLE in self.solver.requires) or strength == HARD else 0.05 / strength
        return SlackSVM(X, y, slack, scale=scale, **options)

    @property
    def near(self):
        """How much the values of two runs of some thousand iterations may differ."""
        return {"abs": 0.1}

    @property
    def biases(self):
        """Every kind of bias that the problem supports."""
        return [BIASES[bias] for bias in BIASES if bias != "penalised" or self.loss is not None]


@dataclass(frozen=True)
class KernelCase(Case):
    bias: str = "free"
    data = staticmethod(moons)
    rounding = 1e-6  # kernel rows are cached in float32

    def problem(self, data=None, *, strength=1.0, cache_size=1.0, **options):
        """By default on two moons."""
        X, y = moons() if data is None else data
        K = KernelMatrix(X, Rbf(gamma=1.0), cache_size=cache_size)
        options = BIASES[self.bias] | options
        if self.loss is None:
            return SlackSVM(K, y, 0.0 if (Trait.SEPARABLE in self.solver.requires) else 0.1 / strength, **options)
        return RegularizedSVM(K, y, strength, loss=self.loss, **options)

    @property
    def biases(self):
        """Only the bias of the case: each bias that the solver takes has its own case."""
        return [{}]

    @property
    def near(self):
        """How much the values of two runs of some thousand iterations may differ."""
        return {"rel": 0.05 if self.solver.default_tol else 0.15}

    def taken(self):
        """Whether the solver takes the problem; if not, its error must contain its name."""
        if self.loss is None and self.bias == "penalised":
            return False
        try:
            self.solver.start(self.problem(), np.random.default_rng(0))
        except ValueError as error:
            assert self.solver.name in str(error)  # noqa: PT017
            return False
        return True


def losses_of(solver):
    if solver.solves is SlackSVM:
        return [None]
    return [name for name, loss in LOSSES.items() if loss.smooth or Trait.SMOOTH_LOSS not in solver.requires]


def label(*parts):
    return ", ".join(part for part in parts if part)


LINEAR_CASES = {
    label(name, loss): LinearCase(solver, loss) for name, solver in LINEAR.items() for loss in losses_of(solver)
}
KERNEL_CASES = {
    label(f"kernel {name}", loss, f"bias {bias}"): KernelCase(kind(), loss, bias)
    for name, kind in KERNEL_SOLVERS.items()
    for loss in losses_of(kind)
    for bias in BIASES
    if KernelCase(kind(), loss, bias).taken()
} | {f"kernel {name}": KernelCase(solver, losses_of(solver)[0]) for name, solver in KERNEL_VARIANTS.items()}
CASES = LINEAR_CASES | KERNEL_CASES

# One solver of each form and of each kind of data, for tests whose outcome does not depend on the solver.
FEW_CASES = {name: CASES[name] for name in ("simba", "sdca, hinge", "kernel smo, hinge, bias free")}


def each_case(cases, wanted=lambda case: True):
    """Run a test on every case for which `wanted` is true."""
    chosen = {name: case for name, case in cases.items() if wanted(case)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen)


def numbers_of(w):
    """The numbers that represent a point w: weights of features, or coefficients of samples."""
    return getattr(w, "beta", w)


def length(X, w):
    """The norm of w; if w is a sum of samples, its norm in the kernel's space."""
    return np.linalg.norm(w) if isinstance(w, np.ndarray) else np.sqrt(w.beta @ X.dot(w))


def same(one, other):
    """Whether two solutions agree to the bit."""
    np.testing.assert_array_equal(numbers_of(one.w), numbers_of(other.w))
    if hasattr(one.w, "f"):
        np.testing.assert_array_equal(one.w.f, other.w.f)
    np.testing.assert_array_equal(one.p, other.p)
    assert one.b == other.b


def untimed(trace):
    return [(row.iteration, row.cost, repr(row.gap), repr(row.holdout_error)) for row in trace]
