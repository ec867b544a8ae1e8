r"""CoCoA+."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.engine.parts import Parts, Scattered, in_parts
from maxmargin.engine.problem import Problem, Solution, Trait
from maxmargin.engine.solver import Reason, Solver, Step
from maxmargin.engine.sparse_vector import SparseVector
from maxmargin.svm.linear.cocoa_part import CocoaPart
from maxmargin.svm.regularized import RegularizedSVM

MOST_PASSES = 8
FIRST_PASSES = 1
MORE = 0.8
FEWER = 0.5
SAFETY = 1.0
DECAY = 0.5
REFRESH = 64
UNSHRINK = 0.1
UNSHRINK_PASSES = 50
RHO = 1.0
FIRST_SIGMA = 0.5
MOMENTUM = True
RESTART = 1.0
MOST_BETA = 0.95


@dataclass
class CocoaState:
    dual_signature: tuple[Any, ...]
    C: float
    parts: Parts
    units: int
    stored: int
    active_stored: int
    rho: float
    v: Vector
    change: SparseVector
    t: float = 1.0
    b: float = 0.0
    shift: float = 0.0
    imbalance: float = 0.0
    linear: float = 0.0
    curvature: float = 0.0
    sigma: float = 1.0
    sigma_b: float = 1.0
    passes: int = FIRST_PASSES
    all_active: bool = True
    gap: float = math.inf
    gap_of_all: float = math.inf
    since_all: float = 0.0
    rounds: int = 0
    beta: float = 0.0
    theta: float = 1.0
    step: Any = None
    imb_step: float = 0.0
    stay: int = 0
    base: Any = None


@dataclass(frozen=True)
class Cocoa(Solver[RegularizedSVM, CocoaState]):
    r"""CoCoA."""

    name: ClassVar[str] = "cocoa"
    solves: ClassVar[type[Problem]] = RegularizedSVM
    requires: ClassVar[frozenset[Trait]] = frozenset({Trait.PARTS})
    default_tol: ClassVar[float | None] = 1e-3
    resumes: ClassVar[bool] = True

    def start(self, problem: RegularizedSVM, rng: np.random.Generator, warm: object = None) -> CocoaState:
        if isinstance(warm, CocoaState) and all(map(np.array_equal, warm.dual_signature, problem.dual_signature)):
            return warm
        begin, shift = None, 0.0
        if isinstance(warm, CocoaState):
            begin, shift = np.concatenate(warm.parts.collect("dual_variables", warm.t)), warm.b
            if not problem.loss.smooth:
                begin *= problem.C / warm.C
        elif isinstance(warm, Solution) and warm.p is not None:
            begin, shift = warm.p, warm.b
        sq_norms = problem.sq_norms()
        mean = float(np.average(sq_norms, weights=problem.s)) or 1.0
        rho = RHO * mean if problem.free_bias else problem.bias_feature**2
        parts = in_parts(problem.X).place(
            CocoaPart,
            Scattered(problem.y),
            Scattered(problem.s),
            Scattered(sq_norms),
            problem.C,
            problem.loss,
            rho,
            int(rng.integers(2**62)),
            None if begin is None else Scattered(begin),
            units=True,
        )
        units, stored = parts.total("count")
        zero = np.zeros(problem.X.shape[1])
        state = CocoaState(
            problem.dual_signature, problem.C, parts, units, stored, stored, rho, zero, SparseVector.of(zero)
        )
        state.sigma = state.sigma_b = float(units) ** FIRST_SIGMA
        if begin is not None or rho == 0:
            self._refresh(state)
        if problem.free_bias:
            state.shift = shift
        state.b = state.shift + state.rho * state.imbalance
        return state

    def _refresh(self, state: CocoaState) -> None:
        v, state.linear, state.curvature, state.imbalance = state.parts.total("sums", state.t)
        off = v.dense() - state.v
        change = state.change.dense()
        state.v = state.v + off
        state.change = SparseVector.of(change + off)

    def step(self, problem: RegularizedSVM, state: CocoaState, iterations: int, budget: float) -> Step:
        before = problem.X.ledger.cost
        for done in range(iterations):
            left = budget - (problem.X.ledger.cost - before)
            if left < 2 * state.passes * (state.stored if state.all_active else state.active_stored):
                return Step(done, Reason.BUDGET)
            self._round(problem, state)
        return Step(iterations)

    def _round(self, problem: RegularizedSVM, state: CocoaState) -> None:
        beta = state.beta
        delta, linear, bend, imbalance_d, _, square_k, square_bk, gap, state.active_stored, passes, _ = (
            state.parts.update(
                "round",
                state.t,
                beta,
                state.change,
                state.b + state.rho * beta * state.imb_step,
                state.sigma,
                state.sigma_b,
                state.passes,
                state.all_active,
            )
        )
        passes /= state.units
        square = delta.square()
        # the whole change from x: beta step + delta
        e = delta.dense()
        if beta:
            e += beta * state.step
        imbalance = imbalance_d + beta * state.imb_step
        slope = linear - float(e @ state.v) - state.b * imbalance
        curve = float(e @ e) + bend + state.rho * imbalance**2
        best = slope / curve if curve > 0 else 1.0
        t = min(1.0, max(0.0, best))
        gain = t * slope - 0.5 * t * t * curve
        eff = square / square_k if square_k else 1.0
        eff_b = imbalance_d**2 / square_bk if square_bk else 1.0
        pull = 0.5 * beta**2 * (float(state.step @ state.step) + state.rho * state.imb_step**2) if beta else 0.0
        base = state.v + beta * state.step if beta else state.v
        state.base = base
        state.t = t
        state.step = t * e
        state.imb_step = t * imbalance
        state.v = state.v + state.step
        state.imbalance += state.imb_step
        state.linear += t * linear
        state.curvature += t * t * bend
        state.b += state.rho * state.imb_step
        # momentum
        if best < RESTART or not MOMENTUM:
            state.theta = 1.0
            state.beta = 0.0
        else:
            theta = 0.5 * (1 + math.sqrt(1 + 4 * state.theta**2))
            state.beta = min((state.theta - 1) / theta, MOST_BETA)
            state.theta = theta
        state.change = SparseVector.of(state.v + state.beta * state.step - base)
        whole = state.all_active
        gap_total = gap + pull + (abs(state.b * state.imbalance) if problem.free_bias else 0.0)
        state.gap = max(0.0, gap_total - gain)
        state.rounds += 1
        state.sigma = self.adapted(state.sigma, SAFETY * eff, state.units)
        state.sigma_b = self.adapted(state.sigma_b, SAFETY * eff_b, state.units)
        if problem.free_bias:
            state.shift = state.b
            state.b += state.rho * state.imbalance
        state.since_all += passes
        if whole:
            state.gap_of_all, state.all_active, state.since_all = gap_total, False, 0.0
        elif state.active_stored == 0 or gap_total <= UNSHRINK * state.gap_of_all or state.since_all > UNSHRINK_PASSES:
            state.all_active = True
        if state.rounds % REFRESH == 0:
            pass

    @staticmethod
    def adapted(sigma: float, eff: float, units: int) -> float:
        eff = min(max(eff, 1.0), float(units))
        return eff if eff > sigma else sigma ** (1 - DECAY) * eff**DECAY

    def dual(self, state: CocoaState) -> float:
        """linear here = sum a - (q-part kept separately)."""
        quadratic = float(state.v @ state.v) + state.rho * state.imbalance**2
        return state.linear - 0.5 * (state.curvature + quadratic) - state.shift * state.imbalance

    def solution(self, problem: RegularizedSVM, state: CocoaState) -> Solution:
        alpha = np.concatenate(state.parts.collect("dual_variables", state.t))
        return Solution(state.v.copy(), state.b, alpha, state.v.copy())

    def default_iterations(self, problem: RegularizedSVM) -> int:
        return 1000

    def next_check(self, problem: RegularizedSVM, state: CocoaState, done: int) -> int:
        return done + 1

    def estimated_gap(self, problem: RegularizedSVM, state: CocoaState) -> float:
        return state.gap / (abs(self.dual(state)) + state.gap) if math.isfinite(state.gap) else math.inf
