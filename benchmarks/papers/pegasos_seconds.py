"""Shalev-Shwartz, Singer, Srebro (2007), the abstract: a text classification problem of 800,000 rows in 5 seconds."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import markdown
from results import Row, values_of, where

from benchmarks.papers.frame import NOT_REPRODUCED, PARTLY, REPRODUCED, Experiment, Verdict, share_of
from maxmargin import RegularizedSVM, solve
from maxmargin.core.threads import limit_blas
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.solvers import Pegasos, Sdca, auto_solver

SETS = {"quick": ("20news",), "full": ("20news", "news20")}
ROWS = {"quick": 40_000, "full": 800_000}
ENTRIES = 76  # of a row of RCV1, in the mean: 0.16 % of 47,236 features
LAMBDA = 1e-4
ACCURACIES = (0.1, 0.03, 0.01, 0.003, 0.001)
JUDGED = 0.01  # where the claim is judged
CLAIMED = 5.0  # seconds
WRITTEN, DEFAULT, CHOSEN = "Pegasos, as written", "Pegasos, default", "chosen by LinearSVC"
METHODS = (WRITTEN, DEFAULT, CHOSEN)
SEEDS = {"quick": 2, "full": 3}
LIMIT = {"quick": 2.0, "full": 15.0}  # CPU seconds of a run
GROWTH = 1.15  # of the seconds from one look at the objective to the next
FIRST_LOOK = 1e-3  # passes before the first one
BLOCK = 50_000  # rows that are drawn, or evaluated in float64, at a time


class PegasosSeconds(Experiment):
    name = "003-seconds"
    paper = "003 Pegasos"
    what = "the abstract's 5 seconds for 800,000 rows of text"
    claim = "Less than 5 seconds to converge on a text classification problem of RCV1 with 800,000 examples."

    def setting(self, mode: str) -> str:
        return (
            f"RCV1 is not at hand. {' and '.join(SETS[mode])} (20,000 newsgroup posts of two classes; news20 was "
            f"rebuilt from its source) are scaled to {ROWS[mode]:,} rows"
            f"{'' if mode == 'full' else ' (the paper: 800,000)'}: each row is a post drawn at random, of which each "
            f"word is kept with the probability that leaves {ENTRIES} a row in the mean, as RCV1 has, scaled to "
            f"length 1 again. The text at hand names neither lambda nor the accuracy of this claim: lambda = "
            f"{LAMBDA:g}, and accuracy is f(w) - f(w*), with w* by dual coordinate ascent to a relative gap of 1e-4; "
            f"the claim is judged at {JUDGED:g}. f is recomputed from w and the rows in float64, outside the clock, "
            f"whenever the seconds have grown by {100 * (GROWTH - 1):.0f} %; counted is the first look from which "
            f"on all later ones are within the accuracy. No bias. CPU seconds of {SEEDS[mode]} runs of "
            f"{LIMIT[mode]:g} s each, without reading the data, as the paper's. Pegasos as written draws one row from "
            f"all, projects, and answers with the last iterate; by default it makes permuted passes and averages."
        )

    def tasks(self, mode: str) -> list[str]:
        return [f"{name}: {method}" for name in SETS[mode] for method in METHODS]

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        name, method = task.split(": ")
        X, y = scaled(name, ROWS[mode])
        best = optimum(name, ROWS[mode])
        about = {"set": name, "n": y.size, "entries": X.nnz / y.size, "best": best, "method": method}
        return [
            about | {"seed": seed, **look}
            for seed in range(SEEDS[mode])
            for look in looks(X, y, method, seed, best, LIMIT[mode])
        ]

    def seconds(self, rows: Sequence[Row], name: str, method: str, accuracy: float) -> list[float]:
        """CPU seconds of each run until it stays within the accuracy; infinite where it did not."""
        own = where(rows, set=name, method=method)
        found = []
        for seed in values_of(own, "seed"):
            run = where(own, seed=seed)
            above = [k for k, row in enumerate(run) if row["above"] > accuracy]
            first = above[-1] + 1 if above else 0
            found.append(run[first]["seconds"] if first < len(run) else math.inf)
        return found

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        names, all_rows = values_of(rows, "set"), min(row["n"] for row in rows) == ROWS["full"]
        figures, kept = [], []
        for name in names:
            slowest = {method: max(self.seconds(rows, name, method, JUDGED)) for method in METHODS}
            kept.append(slowest[WRITTEN] < CLAIMED)
            figures.append(f"{name}: " + ", ".join(f"{method} {shown(value)} s" for method, value in slowest.items()))
        word = NOT_REPRODUCED if not any(kept) else REPRODUCED if all(kept) and all_rows else PARTLY
        fewer = "" if all_rows else " With fewer rows than the paper's, this is no more than partly shown."
        return Verdict(
            word,
            f"Pegasos as written is within {JUDGED:g} of the optimum in less than {CLAIMED:g} s on "
            f"{share_of(kept, 'sets')}, in all runs.",
            [f"the slowest run of each, on {figure}" for figure in figures],
            f"Convergence is judged at f(w*) + {JUDGED:g}, as the text at hand names no accuracy.{fewer}",
        )

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for name in values_of(rows, "set"):
            own = where(rows, set=name)
            first = (
                f"{name}, {own[0]['n']:,.0f} rows of {own[0]['entries']:.0f} entries, f(w\\*) = {own[0]['best']:.4f}"
            )
            for method in METHODS:
                cells = []
                for accuracy in ACCURACIES:
                    found = self.seconds(rows, name, method, accuracy)
                    there = sum(map(math.isfinite, found))
                    some = "" if there == len(found) else f" ({there} of {len(found)} runs)"
                    cells.append(f"{shown(float(np.median(found)))}{some}")
                lines.append([first, method, *cells])
        header = ["set", "method", *(f"within {accuracy:g}" for accuracy in ACCURACIES)]
        return "CPU seconds, the median of the runs:\n\n" + markdown(header, lines)

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        names = values_of(rows, "set")
        for panel, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            for number, method in enumerate(METHODS):
                own = where(rows, set=name, method=method)
                for seed in values_of(own, "seed"):
                    run = where(own, seed=seed)
                    panel.plot(
                        [row["seconds"] for row in run],
                        [max(row["above"], ACCURACIES[-1] / 10) for row in run],
                        color=f"C{number}",
                        lw=0.8,
                        label=method if seed == 0 else None,
                    )
            panel.axvline(CLAIMED, color="grey", linestyle=":")
            panel.axhline(JUDGED, color="grey", linestyle=":")
            panel.set(title=name, xscale="log", yscale="log", xlabel="CPU seconds", ylabel="f(w) - f(w*)")
            panel.grid(alpha=0.3)
            panel.legend(fontsize="small")


@cache
def scaled(name: str, n: int) -> tuple[Any, Any]:
    (source,) = find_dataset(name).glob("*.bz2")
    X, y = read_libsvm(source, dtype=np.float32)
    return resampled(sp.csr_matrix(X), y, n)


def resampled(X: Any, y: Any, n: int) -> tuple[Any, Any]:
    """n rows: posts that are drawn at random with some of their words, the same ones each time."""
    rng, share = np.random.default_rng(0), ENTRIES / (X.nnz / y.size)
    parts, labels = [], []
    for start in range(0, n, BLOCK):
        posts = rng.integers(y.size, size=min(BLOCK, n - start))
        part = X[posts]
        kept = rng.random(part.nnz) < share
        ends = np.concatenate([[0], np.cumsum(kept)])[part.indptr]
        part = sp.csr_matrix((part.data[kept], part.indices[kept], ends), shape=part.shape)
        norms = np.sqrt(np.asarray(part.multiply(part).sum(axis=1)).ravel())
        part.data /= np.repeat(np.where(norms > 0, norms, 1.0), np.diff(part.indptr)).astype(np.float32)
        parts.append(part)
        labels.append(y[posts])
    return sp.vstack(parts, format="csr"), np.concatenate(labels)


def problem_of(X: Any, y: Any) -> RegularizedSVM:
    return RegularizedSVM(as_matrix(X), y, 1 / (LAMBDA * y.size), bias=False)


@cache
def optimum(name: str, n: int) -> float:
    """f(w*), from below."""
    return LAMBDA * solve(problem_of(*scaled(name, n)), Sdca(), tol=1e-4, random_state=0).certificate.dual


def objective(X: Any, y: Any, w: Any) -> float:
    """f(w) of Eq. (1), from scratch."""
    hinge = 0.0
    for start in range(0, y.size, BLOCK):
        rows = slice(start, start + BLOCK)
        hinge += float(np.maximum(0.0, 1 - y[rows] * (X[rows].astype(np.float64) @ w)).sum())
    return LAMBDA / 2 * float(w @ w) + hinge / y.size


def looks(X: Any, y: Any, method: str, seed: int, best: float, limit: float) -> list[dict[str, float]]:
    """CPU seconds, iterations and how far the objective is above the optimum, at growing numbers of iterations."""
    problem = problem_of(X, y)
    before = time.process_time()
    solver: Any = {
        WRITTEN: lambda: Pegasos(order="iid", average=None),
        DEFAULT: Pegasos,
        CHOSEN: lambda: auto_solver(RegularizedSVM, problem.X, C=problem.C, loss="hinge"),
    }[method]()
    found, iteration, close = [], 0, 0
    with limit_blas():
        state = solver.start(problem, np.random.default_rng(seed))
        seconds = time.process_time() - before
        while seconds < limit and close < 3:
            before = time.process_time()
            iteration += solver.step(problem, state, max(1, int((GROWTH - 1) * iteration)), UNLIMITED).iterations
            w = np.asarray(solver.solution(problem, state).w)
            seconds += time.process_time() - before
            if iteration < FIRST_LOOK * y.size or (found and seconds < GROWTH * found[-1]["seconds"]):
                continue
            above = objective(X, y, w) - best
            close = close + 1 if above <= ACCURACIES[-1] else 0
            found.append({"seconds": seconds, "iterations": iteration, "above": above})
    return found


def shown(seconds: float) -> str:
    return f"{seconds:.2g}" if math.isfinite(seconds) else "never"
