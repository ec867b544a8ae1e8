"""SVMs with a Gaussian kernel and a bias, two or more classes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import kernel_worker
import linear_worker
import numpy as np
from common import AS_A_USER
from kernel_quality import Function, quality, two_class_models
from results import QUICK
from workers import WorkerProcess

from benchmarks.arena.entrants import KERNEL, OURS, Entrant
from benchmarks.arena.features import shape
from benchmarks.arena.race import BEST, CASE, FIT, Contestant, Ring, digits, race

REFERENCE, TIGHT = "maxmargin-float64", 1e-8  # the solver that finds the optimum, and its relative duality gap


@dataclass(frozen=True)
class KernelSet:
    """A data set, gamma of the kernel exp(-gamma |x - z|^2), and values of C; several classes: one-vs-one."""

    name: str
    load: Callable[[], tuple[Any, Any]]
    gamma: float
    Cs: tuple[float, ...] = (1.0,)
    quick: bool = False  # whether it is part of a quick run, which uses the first value of C
    family: ClassVar[str] = "kernel"

    def run(self, ring: Ring) -> list[dict[str, Any]]:
        X, y = self.load()
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.npz"
            linear_worker.save(data, X, y)

            def start(entrant: Entrant, python: str) -> WorkerProcess:
                command = [python, kernel_worker.__file__, entrant.worker, data, "--threads", AS_A_USER]
                return WorkerProcess(entrant.title, command)

            processes, rows = ring.processes(KERNEL, start)
            reference = start(Entrant(REFERENCE, OURS, REFERENCE), ring.installed[OURS].python)
            try:
                for C in self.Cs[:1] if ring.mode == QUICK else self.Cs:
                    rows += self.contest(X, y, C, processes, reference, ring)
            finally:
                for process in (*processes.values(), reference):
                    process.end()
        return rows

    def contest(
        self, X: Any, y: Any, C: float, processes: Mapping[str, WorkerProcess], reference: WorkerProcess, ring: Ring
    ) -> Iterator[dict[str, Any]]:
        case, k = f"C = {C:g}", Function("rbf", self.gamma)

        def request(**more: Any) -> dict[str, Any]:
            return {"parameters": {"gamma": self.gamma, "C": C, "cache_size": None, **more}}

        most = ring.limits.reference
        model, _, _ = reference.ask(request(tol=TIGHT, max_time=most), 2 * most)
        reference.end()  # frees its memory for the entrants
        best = values(k, X, y, C, model)

        def judge(model: Mapping[str, Any]) -> dict[str, Any]:
            primal, dual = values(k, X, y, C, model)
            done = primal <= best[0] * (1 + BEST) and dual >= best[1] * (1 - BEST)
            return {"primal": digits(primal), "dual": digits(dual), "done": done}

        contestants = [
            Contestant(entrant, processes[entrant.title], lambda rung: request(tol=rung))
            for entrant in KERNEL
            if entrant.title in processes
        ]
        yield {
            "case": case,
            "kind": CASE,
            "family": self.family,
            "shape": f"{shape(X, y)}, gamma = {self.gamma:.3g}",
            "primal": digits(best[0]),
            "dual": digits(best[1]),
        }
        for row in race(FIT, contestants, judge, ring.limits):
            yield {"case": case, **row}


def values(k: Function, X: Any, y: Any, C: float, model: Mapping[str, Any]) -> tuple[float, float]:
    """The sums of the primal and of the dual objectives over the models of all pairs of classes, in float64."""
    coef = model["coef"].astype(np.float64)
    if "classes" not in model:
        found = [quality(k, X, np.where(y > 0, 1.0, -1.0), C, model["support"], coef, float(model["intercept"]))]
    else:
        pairs = two_class_models(model["classes"], y, model["support"], coef, model["intercept"])
        found = [
            quality(k, X[rows], labels, C, support, own, float(intercept))
            for _, rows, labels, support, own, intercept in pairs
        ]
    return sum(each.primal for each in found), sum(each.dual for each in found)
