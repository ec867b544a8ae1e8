"""Shalev-Shwartz, Singer, Srebro (2007), abstract: 800,000 rows of text in less than 5 seconds."""

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

from benchmarks.papers.frame import NOT_REPRODUCED, PARTLY, REPRODUCED, Experiment, Verdict, share_of, shown, staying
from maxmargin import RegularizedSVM, solve
from maxmargin.core.threads import limit_blas
from maxmargin.data import as_matrix, find_dataset, read_libsvm
from maxmargin.engine.stop_rules import UNLIMITED
from maxmargin.solvers import Pegasos, Sdca, auto_solver

SETS = {"quick": ("20news",), "full": ("20news", "news20")}
ROWS = {"quick": 40_000, "full": 800_000}
ENTRIES = 76  # mean number of entries in a row of RCV1: 0.16 % of 47,236 features
LAMBDA = 1e-4
ACCURACIES = (0.1, 0.03, 0.01, 0.003, 0.001)
JUDGED = 0.01  # the accuracy that counts as converged
CLAIMED = 5.0  # seconds
WRITTEN, DEFAULT, CHOSEN = "Pegasos, as written", "Pegasos, default", "chosen by LinearSVC"
METHODS = (WRITTEN, DEFAULT, CHOSEN)
SEEDS = {"quick": 2, "full": 3}
LIMIT = {"quick": 2.0, "full": 15.0}  # CPU seconds per run
GROWTH = 1.15  # factor by which the seconds grow from one check of the objective to the next
FIRST_LOOK = 1e-3  # passes before the first check
BLOCK = 50_000  # rows that are drawn, or evaluated in float64, at once


class PegasosSeconds(Experiment):
    name = "003-seconds"
    paper = "Shalev-Shwartz et al. 2007 (Pegasos)"
    what = "Abstract, 5 seconds for 800,000 rows of text"
    claim = (
        'According to the abstract, "it takes less than 5 seconds for our solver to converge when solving a text '
        'classification problem from Reuters Corpus Volume 1 (RCV 1) with 800,000 training examples".'
    )
    measurement = (
        f"CPU seconds until Pegasos as written stays within {JUDGED:g} of the optimal objective. We do not have RCV1: "
        "other text is resampled to its size and density."
    )

    def setting(self, mode: str) -> str:
        rebuilt = "; news20 was rebuilt from its source" if "news20" in SETS[mode] else ""
        return (
            f"Data: {' and '.join(SETS[mode])} (newsgroup posts in two classes{rebuilt}), resampled to {ROWS[mode]:,} "
            f"rows{'' if mode == 'full' else ' (the paper: 800,000)'}. Each row is a randomly drawn post of which each "
            f"word is kept with the probability that leaves {ENTRIES} words per row on average, as in RCV1; then it is "
            "scaled to length 1. No bias. Our copy of the paper gives neither lambda nor the accuracy for this claim. "
            f"We use lambda = {LAMBDA:g} and count a run as converged if f(w) - f(w*) is at most {JUDGED:g}; f(w*) "
            "comes from dual coordinate ascent to a relative duality gap of 1e-4. f(w) is computed in float64 from w "
            f"and the rows, with the clock stopped, whenever the seconds have grown by {100 * (GROWTH - 1):.0f} %. The "
            "time to an accuracy is that of the first check from which on all checks are within it. There are "
            f"{SEEDS[mode]} runs of at most {LIMIT[mode]:g} CPU seconds each, without the time to read the data. The "
            "machine is much newer than the paper's. Pegasos as written draws each row from all rows, projects, and "
            "returns the last iterate; the default Pegasos makes permuted passes and averages."
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
        """CPU seconds of each run until it stays within the accuracy; infinite if it does not."""
        own = where(rows, set=name, method=method)
        found = []
        for seed in values_of(own, "seed"):
            run = where(own, seed=seed)
            first = staying([row["above"] for row in run], accuracy)
            found.append(math.inf if first is None else run[first]["seconds"])
        return found

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        names, all_rows = values_of(rows, "set"), min(row["n"] for row in rows) == ROWS["full"]
        figures, kept = [], []
        for name in names:
            slowest = {method: max(self.seconds(rows, name, method, JUDGED)) for method in METHODS}
            kept.append(slowest[WRITTEN] < CLAIMED)
            figures.append(
                f"{name}, slowest run of each method: "
                + ", ".join(f"{method} {in_seconds(value)}" for method, value in slowest.items())
            )
        word = NOT_REPRODUCED if not any(kept) else REPRODUCED if all(kept) and all_rows else PARTLY
        fewer = "" if all_rows else " With fewer rows than in the paper, the claim can be shown only in part."
        return Verdict(
            word,
            f"All runs of Pegasos as written come within {JUDGED:g} of the optimum in less than {CLAIMED:g} s on "
            f"{share_of(kept, 'sets')}.",
            figures,
            f"The slowest run decides. Our copy of the paper names no accuracy, so the threshold of {JUDGED:g} is our "
            f"choice, and our machine is much newer than the paper's.{fewer}",
        )

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for name in values_of(rows, "set"):
            own = where(rows, set=name)
            first = (
                f"{name}: {own[0]['n']:,.0f} rows of {own[0]['entries']:.0f} entries, f(w\\*) = {own[0]['best']:.4f}"
            )
            for method in METHODS:
                cells = []
                for accuracy in ACCURACIES:
                    found = self.seconds(rows, name, method, accuracy)
                    there = sum(map(math.isfinite, found))
                    some = "" if there == len(found) else f" ({there} of {len(found)} runs)"
                    cells.append(f"{shown(float(np.median(found)), '.2g')}{some}")
                lines.append([first, method, *cells])
        header = ["set", "method", *(f"within {accuracy:g}" for accuracy in ACCURACIES)]
        return "CPU seconds until a run stays within an accuracy, median of the runs:\n\n" + markdown(header, lines)

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
    """n rows, each a randomly drawn post with some of its words; every call gives the same rows."""
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
    """A lower bound of f(w*), nearly equal to it."""
    return LAMBDA * solve(problem_of(*scaled(name, n)), Sdca(), tol=1e-4, random_state=0).certificate.dual


def objective(X: Any, y: Any, w: Any) -> float:
    """f(w) of Eq. (1), computed from scratch."""
    hinge = 0.0
    for start in range(0, y.size, BLOCK):
        rows = slice(start, start + BLOCK)
        hinge += float(np.maximum(0.0, 1 - y[rows] * (X[rows].astype(np.float64) @ w)).sum())
    return LAMBDA / 2 * float(w @ w) + hinge / y.size


def looks(X: Any, y: Any, method: str, seed: int, best: float, limit: float) -> list[dict[str, float]]:
    """CPU seconds, iterations, and f(w) - f(w*) at each check of one run; three checks at the best accuracy end it."""
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


def in_seconds(value: float) -> str:
    return f"{value:.2g} s" if math.isfinite(value) else "never"
