"""Linear SVMs without a bias: two or more classes, hinge and squared hinge loss, dense and sparse data."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import linear
import linear_worker
import numpy as np
import scipy.sparse as sp
from common import AS_A_USER
from results import QUICK

from benchmarks.arena.entrants import LINEAR, Entrant, linear_entrants
from benchmarks.arena.race import BEST, CASE, FIT, Contestant, Ring, digits, race


@dataclass(frozen=True)
class LinearSet:
    """A data set and values of C; several classes are learned one-vs-rest."""

    name: str
    load: Callable[[], tuple[Any, Any]]
    Cs: tuple[float, ...] = (1.0,)
    losses: tuple[str, ...] = linear.LOSSES
    dense: bool = False  # give dense arrays to entrants that accept them; else all get CSR
    quick: bool = False  # whether it is part of a quick run, which uses the first value of C
    family: ClassVar[str] = "linear"

    def run(self, ring: Ring) -> list[dict[str, Any]]:
        X, y = self.load()
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.npz"
            linear_worker.save(data, X, y)

            def start(entrant: Entrant, python: str) -> linear.Worker:
                return linear.Worker(entrant.worker, data, threads=AS_A_USER, dense=self.dense, python=python)

            processes, rows = ring.processes(LINEAR, start)
            try:
                for loss in self.losses:
                    for C in self.Cs[:1] if ring.mode == QUICK else self.Cs:
                        rows += self.contest(X, y, loss, C, processes, ring)
            finally:
                for process in processes.values():
                    process.end()
        return rows

    def contest(
        self, X: Any, y: Any, loss: str, C: float, processes: Mapping[str, Any], ring: Ring
    ) -> Iterator[dict[str, Any]]:
        problems = list(binary_labels(y))
        found = [linear.reference(X, labels, loss, C, ring.limits.reference / len(problems)) for labels in problems]
        least = objective(X, y, [result.solution.w for result in found], loss, C)
        case = f"{loss.replace('_', ' ')}, C = {C:g}"

        def judge(model: Mapping[str, Any]) -> dict[str, Any]:
            primal = objective(X, y, model["w"], loss, C)
            return {"primal": digits(primal), "done": primal <= least * (1 + BEST)}

        contestants = [
            Contestant(entrant, processes[entrant.title], lambda rung: {"loss": loss, "C": C, "rung": rung})
            for entrant in linear_entrants(loss)
            if entrant.title in processes
        ]
        yield {
            "case": case,
            "kind": CASE,
            "family": self.family,
            "shape": shape(X, y),
            "primal": digits(least),
            "dual": digits(sum(result.certificate.dual for result in found)),
        }
        for row in race(FIT, contestants, judge, ring.limits):
            yield {"case": case, **row}


def binary_labels(y: Any) -> Iterator[Any]:
    """Labels +1 and -1 of each one-vs-rest problem; of two classes, a single problem."""
    classes = np.unique(y)
    for label in classes[1:] if classes.size == 2 else classes:
        yield np.where(y == label, 1.0, -1.0)


def objective(X: Any, y: Any, w: Sequence[Any], loss: str, C: float) -> float:
    """The sum of the primal objectives of all binary problems, in float64; w has a row for each."""
    rows = zip(binary_labels(y), np.atleast_2d(w), strict=True)
    return sum(linear.objective(X, labels, own, loss, C) for labels, own in rows)


def shape(X: Any, y: Any) -> str:
    """The size of the data, as the pages show it."""
    classes = np.unique(y).size
    full = X.nnz / y.size if sp.issparse(X) else np.count_nonzero(X) / y.size
    stored = f", {full:,.0f} entries a row" if full < 0.99 * X.shape[1] else ""
    return f"{y.size:,} x {X.shape[1]:,}{stored}" + (f", {classes} classes" if classes > 2 else "")
