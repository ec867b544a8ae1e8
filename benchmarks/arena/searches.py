"""Searches over C and gamma by cross-validation with a Gaussian kernel: their time and the resulting test error."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import linear_worker
import numpy as np
import search_worker
from results import QUICK
from workers import WorkerProcess

from benchmarks.arena.entrants import SEARCH as ENTRANTS
from benchmarks.arena.entrants import SIDES, Entrant
from benchmarks.arena.features import shape
from benchmarks.arena.race import CASE, SEARCH, SEARCH_PATIENCE, Contestant, Ring, race

FOLDS = 5
QUICK_SIDES = SIDES[:2]


@dataclass(frozen=True)
class SearchSet:
    """Training and test rows; C ranges from 0.1 to 1000, and gamma from 0.01 to 100 times 1 / (d var X)."""

    name: str
    load: Callable[[], tuple[Any, Any, Any, Any]]
    quick: bool = False
    family: ClassVar[str] = "search"

    def run(self, ring: Ring) -> list[dict[str, Any]]:
        X, y, X_test, y_test = self.load()
        scale = 1 / (X.shape[1] * X.var())
        with tempfile.TemporaryDirectory() as folder:
            train, test = (Path(folder) / f"{part}.npz" for part in ("train", "test"))
            linear_worker.save(train, X, y)
            linear_worker.save(test, X_test, y_test)

            def start(entrant: Entrant, python: str) -> WorkerProcess:
                return WorkerProcess(entrant.title, [python, search_worker.__file__, entrant.worker, train, test])

            def request(side: float) -> dict[str, Any]:
                around = np.logspace(-2, 2, int(side))
                return {"Cs": (10 * around).tolist(), "gammas": (scale * around).tolist(), "folds": FOLDS}

            def judge(model: Mapping[str, Any]) -> dict[str, Any]:
                chosen = {name: float(model[name]) for name in ("C", "gamma") if name in model}
                return {"error": float(np.mean(model["labels"] != y_test)), **chosen}

            sides = QUICK_SIDES if ring.mode == QUICK else SIDES
            processes, rows = ring.processes(ENTRANTS, start)
            try:
                contestants = [
                    Contestant(replace(entrant, ladder=sides), processes[entrant.title], request)
                    for entrant in ENTRANTS
                    if entrant.title in processes
                ]
                found = race(SEARCH, contestants, judge, ring.limits._replace(cap=SEARCH_PATIENCE * ring.limits.cap))
            finally:
                for process in processes.values():
                    process.end()
        case = {"kind": CASE, "family": self.family, "shape": shape(X, y), "tested": y_test.size}
        return [*rows, *({"case": "search", **row} for row in [case, *found])]
