"""Cotter, Shalev-Shwartz, Srebro (2012), section 5: test error of SBP in a quarter of LIBSVM's time, with a bias."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import forest
import numpy as np
import sbp
from common import first_at_most, markdown, value_at
from kernel_error import curve_errors
from kernel_quality import Function, error_on_test
from kernel_sets import CASES, WITH_BIAS, Case, Data, drawn
from kernel_worker import Curve
from results import Row, values_of, where

from benchmarks.papers.frame import Experiment, Verdict, overall, percent, points, share_of
from maxmargin import SlackSVM
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix
from maxmargin.solvers import KERNEL_SOLVERS, solve

LIBSVM = "LIBSVM"
AS_WRITTEN, DEFAULT = "SBP, as written", "SBP"
TITLES = {LIBSVM: LIBSVM, AS_WRITTEN: "SBP as written", DEFAULT: "default SBP"}  # of the methods, on the page
FOREST = "forest"
SETS = WITH_BIAS | {FOREST: replace(CASES["forest-500k"], n=None, slack=forest.SLACK)}
PUBLISHED = {  # seconds and test error of LIBSVM in the paper, and the test error of SBP in a quarter of that time
    "adult": (195.0, 0.149, 0.150),
    "mnist": (1980.0, 0.0044, 0.0046),
    FOREST: (35 * 3600.0, 0.018, 0.016),
}
TASKS = {
    "quick": tuple(f"adult: {method}" for method in (LIBSVM, AS_WRITTEN, DEFAULT)),
    "full": (*(f"{name}: {method}" for name in WITH_BIAS for method in (LIBSVM, AS_WRITTEN, DEFAULT)), "forest: SBP"),
}
ROWS = {"quick": 5_000, "full": None}
SECONDS = {"quick": {"adult": 3.0}, "full": {"adult": 30.0, "mnist": 75.0, FOREST: 130.0}}  # wall, per run of SBP
CACHE = 2000  # megabytes of kernel rows
SHARE = 0.25  # of LIBSVM's time that SBP gets in the paper
NEAR = 0.001  # how far SBP may be above LIBSVM's error by then; in the paper the largest difference is 0.001


class SbpLibsvm(Experiment):
    name = "002-libsvm"
    paper = "Cotter et al. 2012 (SBP)"
    what = "Section 5, SBP in a quarter of LIBSVM's time"
    claim = (
        "LIBSVM converged to a test error of 14.9 % in 195 s on Adult, 0.44 % in 1980 s on MNIST and 1.8 % in 35 hours "
        'on Forest; "in one-quarter of each of these runtimes, SBP obtained" 15.0 %, 0.46 % and 1.6 % (section 5).'
    )
    measurement = (
        "CPU seconds and test error of LIBSVM, and the test error of SBP after a quarter of these seconds, with the "
        "paper's parameters: SBP as written, and the package's default form of SBP. On Forest we take LIBSVM's time "
        "and error from the paper."
    )

    def setting(self, mode: str) -> str:
        rows = f" The quick run draws {ROWS[mode]:,} rows of Adult and leaves out the rest." if ROWS[mode] else ""
        limits = ", ".join(f"{seconds:g} on {name}" for name, seconds in SECONDS[mode].items())
        return (
            "Gaussian kernel, lambda and nu of Table 2, with an unregularised bias. LIBSVM is scikit-learn's SVC with "
            f"its default tolerance of 1e-3 and {CACHE:,} MB of cache, run until it stops.{rows} SBP as written draws "
            "one row in each iteration; default SBP is the default form of the package, which keeps kernel rows. The "
            f"seconds of wall time of each run of SBP are {limits}. All use one thread. CPU seconds do not include "
            "saving the models on the way, whose test errors are computed afterwards; the error after a quarter of the "
            "time is that of the last model saved by then. nu is taken as known, as in the paper. On Forest, LIBSVM's "
            "35 hours and its error come from the paper, measured on an Intel E7500; we do not run LIBSVM there. An "
            f"error is near LIBSVM's if it is at most {points(NEAR)} above it."
        )

    def tasks(self, mode: str) -> list[str]:
        return list(TASKS[mode])

    def run(self, task: str, mode: str) -> list[dict[str, Any]]:
        name, method = task.split(": ")
        case = SETS[name]
        data = drawn(case.load(), ROWS[mode])
        found = libsvm(data, case) if method == LIBSVM else ours(data, case, method, SECONDS[mode][name])
        return [{"set": name, "method": method, "n": data.y.size, **row} for row in found]

    def libsvm(self, rows: Sequence[Row], name: str) -> tuple[float, float]:
        """Seconds and test error of LIBSVM: as measured, or those of the paper where we did not run it."""
        own = where(rows, set=name, method=LIBSVM)
        return (own[0]["cpu"], own[0]["error"]) if own else PUBLISHED[name][:2]

    def at_a_quarter(self, rows: Sequence[Row], name: str, method: str) -> tuple[float, float, float]:
        """Last error within a quarter of LIBSVM's seconds, its time, and the time at which the error is first near."""
        own = where(rows, set=name, method=method)
        seconds, level = self.libsvm(rows, name)
        at, errors = [row["cpu"] for row in own], [row["error"] for row in own]
        quarter = SHARE * seconds
        return value_at(at, errors, quarter), value_at(at, at, quarter), first_at_most(at, errors, level + NEAR)

    def verdict(self, rows: Sequence[Row]) -> Verdict:
        parts: dict[str, list[bool]] = {AS_WRITTEN: [], DEFAULT: []}
        figures = []
        for name in values_of(rows, "set"):
            seconds, level = self.libsvm(rows, name)
            for method in parts:
                if where(rows, set=name, method=method):
                    error, at, _ = self.at_a_quarter(rows, name, method)
                    parts[method].append(error <= level + NEAR)
                    run = "" if where(rows, set=name, method=LIBSVM) else ", in the paper"
                    figures.append(
                        f"{name}: {TITLES[method]} has {percent(error, 2)} after {duration(at)} s; LIBSVM has "
                        f"{percent(level, 2)} after {duration(seconds)} s{run}"
                    )
        differences = [f"{100 * (error - level):+.2g} on {name}" for name, (_, level, error) in PUBLISHED.items()]
        return Verdict(
            overall([*parts[AS_WRITTEN], *parts[DEFAULT]]),
            f"After a quarter of LIBSVM's time, SBP as written is within {points(NEAR)} of LIBSVM's error on "
            f"{share_of(parts[AS_WRITTEN], 'sets')}, and the package's default form of SBP on "
            f"{share_of(parts[DEFAULT], 'sets')}.",
            figures,
            "The claim is about SBP as written; the default form, which keeps kernel rows, is what users of the "
            f"package get. The verdict counts both. We allow {points(NEAR)}; the paper's own differences are "
            f"{', '.join(differences)}.",
        )

    def tables(self, rows: Sequence[Row]) -> str:
        lines = []
        for name in values_of(rows, "set"):
            seconds, level = self.libsvm(rows, name)
            own = where(rows, set=name)
            published = PUBLISHED[name]
            first = f"{name}, {own[0]['n']:,.0f} rows"
            lines.append([first, "LIBSVM in the paper", f"{published[0]:,.0f}", f"{100 * published[1]:g} %", ""])
            lines.append([first, "SBP in the paper", f"{SHARE * published[0]:,.0f}", f"{100 * published[2]:g} %", ""])
            if where(own, method=LIBSVM):
                lines.append([first, LIBSVM, duration(seconds), percent(level, 2), ""])
            for method in values_of(own, "method"):
                if method != LIBSVM:
                    error, at, near = self.at_a_quarter(rows, name, method)
                    there = "never" if math.isnan(near) else f"{duration(near)} ({near / seconds:.2g})"
                    lines.append([first, TITLES[method], duration(at), percent(error, 2), there])
        header = ["set", "method", "CPU seconds", "test error", f"first near after, s (share of {LIBSVM}'s time)"]
        return markdown(header, lines)

    def draw(self, rows: Sequence[Row], figure: Any) -> None:
        names = values_of(rows, "set")
        for panel, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            seconds, level = self.libsvm(rows, name)
            for number, method in enumerate((AS_WRITTEN, DEFAULT)):
                own = where(rows, set=name, method=method)
                panel.plot(
                    [row["cpu"] for row in own],
                    [100 * row["error"] for row in own],
                    color=f"C{number}",
                    label=TITLES[method],
                )
            run = "" if where(rows, set=name, method=LIBSVM) else " in the paper"
            panel.plot(seconds, 100 * level, "*", color="grey", markersize=10, label=LIBSVM + run)
            panel.axvline(SHARE * seconds, color="grey", linestyle=":")
            panel.set(title=name, xscale="log", yscale="log", xlabel="CPU seconds", ylabel="test error, %")
            panel.grid(alpha=0.3)
            panel.legend(fontsize="small")


def duration(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 1000 else f"{seconds:.3g}"


class FewModels(Curve):
    """Saves a model whenever the seconds have grown by a fifth."""

    growth = 1.2


def libsvm(data: Data, case: Case) -> list[dict[str, Any]]:
    from sklearn.svm import SVC

    model = SVC(C=case.C, gamma=case.gamma, cache_size=CACHE)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(data.X, data.y)
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    coef = model.dual_coef_.toarray() if hasattr(model.dual_coef_, "toarray") else model.dual_coef_
    k = Function("rbf", case.gamma)
    error = error_on_test(k, data, model.support_, np.ravel(coef), float(model.intercept_[0]))
    return [took | {"error": float(error), "support": model.support_.size}]


def ours(data: Data, case: Case, method: str, seconds: float) -> list[dict[str, Any]]:
    """Run SBP for some seconds of wall time: a row for each saved model."""
    name, options = sbp.METHODS[method]
    K = KernelMatrix(data.X, Rbf(case.gamma), cache_size=CACHE, threads=1)
    problem = SlackSVM(K, data.y, case.slack)
    curve = FewModels(K)
    solver = KERNEL_SOLVERS[name](**options)
    solve(problem, solver, max_time=seconds, certify=False, callback=curve, random_state=0)
    if case.C == forest.C:  # blocks of float64 would take minutes for this many rows
        error_of = forest.TestError(data, threads=2)
        errors = [
            error_of(beta, point["intercept"] * problem.scale)
            for point, beta in zip(curve.points, curve.betas, strict=True)
        ]
    else:
        errors = curve_errors(curve.arrays(problem.scale), data, Function("rbf", case.gamma)).tolist()
    return [
        {
            "cpu": point["cpu"],
            "wall": point["wall"],
            "error": error,
            "support": beta.nnz,
            "evaluations": point["evaluations"],
        }
        for point, beta, error in zip(curve.points, curve.betas, errors, strict=True)
    ]
