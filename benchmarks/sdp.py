"""Semidefinite programs: the sublinear method compared with SCS and Clarabel, and its cost and error with its theorem.

    python benchmarks/sdp.py --json sdp.json
    python benchmarks/sdp.py --parts maxcut --n 50 100 200 --cap 60

maxcut       relaxations of max-cut on random graphs of n vertices: max L.X/4 with ones on the diagonal. The X of the
             sublinear method misses the diagonal by up to eps n, so there is a second value, of X scaled to ones on the
             diagonal
theta        Lovasz's theta number of the pentagon, sqrt 5, and of random graphs
feasibility  max over X of min A_i.X for m dense matrices with a planted X whose margin is known to be positive. A run
             ends when every A_i.X is measured to be positive. Peers maximise the margin itself
error        how far the margin of 20 runs is from the best, for each eps; the theorem promises eps in at least half of
             the runs
growth       CPU seconds and entries read as n, m and 1/eps grow: fitted exponents and those of the theorem

Times are CPU seconds. SCS and Clarabel are used if they are installed: pip install ".[bench]". Our runs end after
`--cap` wall seconds, peers after up to three times as many. Clarabel does not run if its factors would fill the memory.
"""

from __future__ import annotations

import importlib
import math
import multiprocessing
import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import arguments, exponent, markdown, parse_with_threads, write_json

from maxmargin import solve
from maxmargin.problems import SemidefiniteFeasibility, SemidefiniteProgram
from maxmargin.sdp.sublinear import METHODS
from maxmargin.solvers import Progress, SublinearSdp, solve_sdp

MOST_ROWS_FOR_CLARABEL = 120  # rows of X; Clarabel stores a dense matrix with n (n + 1) / 2 rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--n", type=int, nargs="+", default=[50, 100, 200, 400, 800], help="vertices for maxcut")
    parser.add_argument("--theta", type=int, nargs="+", default=[10, 20, 40], help="vertices for theta")
    parser.add_argument(
        "--m",
        type=str,
        nargs="+",
        default=["30x1000", "30x10000", "30x100000", "100x1000", "100x10000", "300x1000"],
        help="rows of X and number of matrices for feasibility, joined by x",
    )
    parser.add_argument("--eps", type=float, nargs="+", default=[0.4, 0.2, 0.1, 0.05], help="values of eps for error")
    parser.add_argument("--seeds", type=int, default=20, help="number of seeds for error")
    parser.add_argument("--method", choices=METHODS, default="exact", help="method for the first three parts")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="for error and growth")
    parser.add_argument("--constant", type=float, default=1.0, help="constant in the number of rounds")
    parser.add_argument("--cap", type=float, default=120, help="limit of a run in wall seconds")
    parser.add_argument("--no-peers", action="store_true", help="run only the sublinear method")
    chosen = parse_with_threads(parser)
    figures: dict[str, list[dict[str, Any]]] = {}
    for part in chosen.parts:
        print(f"\n{part}\n")
        figures[part] = []
        for row in PARTS[part](chosen):
            lines = markdown(list(row), [[shown(cell) for cell in row.values()]]).splitlines()
            print(*lines[2 if figures[part] else 0 :], sep="\n", flush=True)
            figures[part].append(row)
            write_json(chosen.json, figures)
        if part == "growth":
            print(f"\n{exponents(figures[part])}")


def shown(cell: Any) -> str:
    if isinstance(cell, float):
        return (
            ""
            if math.isnan(cell)
            else "> cap"
            if cell == math.inf
            else f"{cell:.3g}"
            if abs(cell) < 100
            else f"{cell:,.0f}"
        )
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


# Programs


def maxcut(n: int, seed: int = 0) -> SemidefiniteProgram:
    """The max-cut relaxation of a random graph with about ten edges per vertex."""
    rng = np.random.default_rng(seed)
    W = np.triu(rng.random((n, n)) < min(0.5, 10 / n), 1).astype(np.float64)
    W += W.T
    A = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) * (n + 1))), shape=(n, n * n))
    return SemidefiniteProgram((np.diag(W.sum(1)) - W) / 4, A, np.ones(n), "=", n, trace="exactly")


def theta(n: int, seed: int | None = None) -> SemidefiniteProgram:
    """The theta number of a cycle, or of a random graph with half of all edges."""
    rng = np.random.default_rng(seed)
    i, j = np.triu_indices(n, 1)
    edges = (j - i == 1) | (j - i == n - 1) if seed is None else rng.random(i.size) < 0.5
    i, j, k = i[edges], j[edges], np.arange(edges.sum())
    places = np.concatenate([i * n + j, j * n + i])
    A = sp.csr_array((np.ones(2 * k.size), (np.concatenate([k, k]), places)), shape=(k.size, n * n))
    return SemidefiniteProgram(np.ones((n, n)), A, np.zeros(k.size), "=", 1.0, trace="exactly")


def planted(n: int, m: int, margin: float = 0.2, seed: int = 0) -> Any:
    """m dense matrices of norm 1, in float32, with A_i.X between once and twice the margin for an X of rank 2."""
    rng = np.random.default_rng(seed)
    V, _ = np.linalg.qr(rng.normal(size=(n, 2)))
    x = V @ V.T / math.sqrt(2)  # of norm 1; X = x / sqrt 2 has trace 1
    A = np.empty((m, n, n), dtype=np.float32)
    for i in range(m):
        G = rng.normal(size=(n, n))
        G = G + G.T
        G -= np.vdot(G, x) * x
        along = margin * (1 + rng.random()) * math.sqrt(2)
        A[i] = along * x + math.sqrt(1 - along**2) * G / np.linalg.norm(G)
    return A


# Peers, on the cone program min q'x, Ax + s = b, s = (0, s >= 0, the triangle of a positive semidefinite matrix)


@dataclass(frozen=True)
class Cone:
    q: Any
    A: Any
    b: Any
    zero: int
    free: int
    n: int
    size: int  # entries of the triangle


def cone(n: int, rows: Any, b: Any, sense: Any, q: Any, upper: bool, with_margin: bool) -> Cone:
    """The cone program over the upper or lower triangle of X, by columns; `with_margin` adds t, below all rows."""
    j, l = np.tril_indices(n) if upper else np.triu_indices(n)
    weight = np.where(j == l, 1.0, math.sqrt(2))
    places = j * n + l
    A = sp.csc_array(rows)[:, places] * weight
    sides = np.where(sense == ">=", -1.0, 1.0)
    A = sp.csr_array(sp.diags_array(sides) @ A)
    equal = sense == "="
    extra = sp.csr_array(np.where(equal, 0.0, 1.0)[:, None]) if with_margin else sp.csr_array((b.size, 0))
    whole = sp.hstack([A, extra]).tocsr()
    identity = sp.hstack([-sp.eye_array(j.size), sp.csr_array((j.size, extra.shape[1]))])
    stacked = sp.csc_matrix(sp.vstack([whole[equal], whole[~equal], identity]))
    limits = np.concatenate([(sides * b)[equal], (sides * b)[~equal], np.zeros(j.size)])
    cost = np.concatenate([-np.asarray(q).ravel()[places] * weight, -np.ones(extra.shape[1])])
    return Cone(cost, stacked, limits, int(equal.sum()), int((~equal).sum()), n, j.size)


def scs(build: Callable[[bool], Cone], cap: float) -> tuple[float, float]:
    """The value and the CPU seconds of SCS; NaN if it is not installed or does not succeed."""
    try:
        module = importlib.import_module("scs")
    except ImportError:
        return math.nan, math.nan
    cone = build(False)
    began = time.process_time()
    data, cones = {"A": cone.A, "b": cone.b, "c": cone.q}, {"z": cone.zero, "l": cone.free, "s": [cone.n]}
    answer = module.SCS(data, cones, verbose=False, eps_abs=1e-4, eps_rel=1e-4, time_limit_secs=cap).solve()
    seconds = time.process_time() - began
    return (-answer["info"]["pobj"] if answer["info"]["status_val"] == 1 else math.nan), seconds


def clarabel(build: Callable[[bool], Cone], cap: float) -> tuple[float, float]:
    """The value and the CPU seconds of Clarabel, as for SCS."""
    try:
        module = importlib.import_module("clarabel")
    except ImportError:
        return math.nan, math.nan
    cone = build(True)
    if cone.n > MOST_ROWS_FOR_CLARABEL:
        return math.nan, math.nan
    settings = module.DefaultSettings()
    settings.verbose, settings.time_limit = False, cap
    cones = [module.ZeroConeT(cone.zero), module.NonnegativeConeT(cone.free)]
    cones = [one for one, dim in zip(cones, (cone.zero, cone.free), strict=True) if dim]
    began = time.process_time()
    nothing = sp.csc_matrix((cone.q.size, cone.q.size))
    answer = module.DefaultSolver(
        nothing, cone.q, cone.A, cone.b, [*cones, module.PSDTriangleConeT(cone.n)], settings
    ).solve()
    seconds = time.process_time() - began
    return (-answer.obj_val if "Solved" in str(answer.status) else math.nan), seconds


def within(cap: float, peer: Any, build: Callable[[bool], Cone]) -> tuple[float, float]:
    """The figures of a peer, run in a process of its own that is killed after three times the cap."""
    context = multiprocessing.get_context("fork")
    figures = context.Queue()
    process = context.Process(target=lambda: figures.put(peer(build, cap)))
    process.start()
    try:
        return figures.get(timeout=3 * cap)
    except queue.Empty:
        process.kill()
        return math.nan, math.inf
    finally:
        process.join()


def peers(build: Callable[[bool], Cone], chosen: Any) -> dict[str, float]:
    """The figures of both peers."""
    if chosen.no_peers:
        return {}
    cap = chosen.cap
    values = {"SCS": within(cap, scs, build), "Clarabel": within(cap, clarabel, build)}
    return {
        f"{name} {what}": of for name, pair in values.items() for what, of in zip(("value", "s"), pair, strict=True)
    }


def as_cone(program: SemidefiniteProgram) -> Callable[[bool], Cone]:
    """The program with its trace as one more row, which is an equality in all programs here."""
    n = program.n
    with program.ledger.on("peers"):
        rows = sp.csr_array(np.array([program.A.matrix(i).ravel() for i in range(program.m)])) if n <= 100 else None
    if rows is None:  # only max-cut is this large, and its rows are the diagonal
        rows = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) * (n + 1))), shape=(n, n * n))
    trace = sp.csr_array(np.eye(n).reshape(1, -1))
    b, sense = np.append(program.b, program.trace_bound), np.append(program.sense, "=")
    return lambda upper: cone(n, sp.vstack([rows, trace]), b, sense, program.C, upper, False)


def as_margin_cone(A: Any) -> Callable[[bool], Cone]:
    """The largest t with A_i.X >= t for an X of trace 1."""
    m, n, _ = A.shape
    rows = np.vstack([A.reshape(m, -1), np.eye(n).reshape(1, -1)])
    b, sense = np.eye(1, m + 1, m)[0], np.append(np.full(m, ">="), "=")
    return lambda upper: cone(n, rows, b, sense, np.zeros((n, n)), upper, True)


# The parts; each yields rows of figures


def part_maxcut(chosen: Any) -> Iterator[dict[str, Any]]:
    for n in chosen.n:
        program = maxcut(n)
        result, seconds = bisected(program, chosen, eps=0.5 / n)
        d = np.sqrt(np.maximum(np.sum(result.answer.factor**2, axis=1), 1e-12))
        V = result.answer.factor / d[:, None]
        scaled = float(np.einsum("ij,ij->", program.C @ V, V))
        row = {"n": n, **of_result(result, seconds), "value, scaled": scaled}
        yield row | peers(as_cone(program), chosen)


def part_theta(chosen: Any) -> Iterator[dict[str, Any]]:
    for n, seed in [(5, None), *((n, 0) for n in chosen.theta)]:
        program = theta(n, seed)
        result, seconds = bisected(program, chosen, eps=0.02)
        row = {"n": n, "m": program.m, **of_result(result, seconds)}
        yield row | peers(as_cone(program), chosen)


def bisected(program: SemidefiniteProgram, chosen: Any, eps: float) -> tuple[Any, float]:
    began = time.process_time()
    solver = SublinearSdp(eps=eps, method=chosen.method, constant=chosen.constant)
    result = solve_sdp(program, solver, tol=0.02, max_time=chosen.cap, random_state=0)
    return result, time.process_time() - began


def of_result(result: Any, seconds: float) -> dict[str, Any]:
    others = sum(count for what, count in result.reads.items() if not what.startswith("learning") and what != "peers")
    return {
        "value": result.answer.value,
        "bound": result.bound,
        "violation": result.answer.violation,
        "rank": result.answer.rank,
        "ended": result.status,
        "read": result.entries_read,
        "read to prove": others,
        "s": seconds,
    }


def part_feasibility(chosen: Any) -> Iterator[dict[str, Any]]:
    for size in chosen.m:
        n, m = map(int, size.split("x"))
        A = planted(n, m)
        problem = SemidefiniteFeasibility(A, scale=1.0 + 1e-6)
        found: dict[str, float] = {}

        def look(progress: Progress, problem: Any = problem, found: Any = found) -> bool:
            if progress.row.iteration < found.get("due", 16):
                return False
            found["due"] = 2 * progress.row.iteration
            with problem.ledger.on("certificate"):
                found["margin"] = problem.evaluate(progress.solution().w).value
            return found["margin"] > 0

        began = time.process_time()
        solver = SublinearSdp(eps=0.1, method=chosen.method, constant=chosen.constant)
        result = solve(problem, solver, max_time=chosen.cap, certify=False, callback=look, random_state=0)
        seconds = time.process_time() - began
        row = {
            "n": n,
            "m": m,
            "margin": found.get("margin", math.nan),
            "rounds": result.n_iter,
            "read": problem.ledger.entries_read,
            "of all": problem.ledger.entries_read / A.size,
            "read to measure": problem.ledger.summary().get("certificate", 0),
            "s": seconds,
        }
        yield row | peers(as_margin_cone(A), chosen)


def part_error(chosen: Any) -> Iterator[dict[str, Any]]:
    n, m = 20, 200
    rng = np.random.default_rng(0)
    A = rng.normal(size=(m, n, n))
    A = A + A.transpose(0, 2, 1)
    A /= np.linalg.norm(A, axis=(1, 2))[:, None, None]
    best, _ = clarabel(as_margin_cone(A), chosen.cap)
    for method in chosen.methods:
        for eps in chosen.eps:
            solver = SublinearSdp(eps=eps, method=method, constant=chosen.constant)
            errors, began = [], time.process_time()
            for seed in range(chosen.seeds):
                problem = SemidefiniteFeasibility(A, scale=1.0 + 1e-9)
                result = solve(problem, solver, max_time=chosen.cap / chosen.seeds, random_state=seed)
                errors.append(best - result.certificate.primal)
            yield {
                "method": method,
                "eps": eps,
                "rounds": result.n_iter,
                "ended": result.status,
                "mean error": float(np.mean(errors)),
                "largest error": float(np.max(errors)),
                "within eps": f"{sum(error <= eps for error in errors)} of {chosen.seeds}",
                "s a run": (time.process_time() - began) / chosen.seeds,
            }


SIZES = {
    "n": [(n, 50, 0.2) for n in (50, 100, 200, 400)],
    "m": [(10, m, 0.2) for m in (1_000, 10_000, 100_000)],
    "1/eps": [(50, 50, eps) for eps in (0.4, 0.2, 0.1, 0.05)],
}
# Exponents of the entries read, and of the time of each method, if one size is large and the others are fixed.
THEORY = {
    "n": {"read": 2.0, "exact": 3.0, "projection": 2.0, "eigenvector": 2.0},
    "m": {"read": 1.0, "exact": 1.0, "projection": 1.0, "eigenvector": 1.0},
    "1/eps": {"read": 2.0, "exact": 2.0, "projection": 5.0, "eigenvector": 2.5},
}


def part_growth(chosen: Any) -> Iterator[dict[str, Any]]:
    """Measure a few rounds of each run, and extrapolate to all of its rounds."""
    for method in chosen.methods:
        for what, sizes in SIZES.items():
            for n, m, eps in sizes:
                rng = np.random.default_rng(0)
                A = rng.normal(size=(m, n, n)).astype(np.float32)
                A = A + A.transpose(0, 2, 1)
                problem = SemidefiniteFeasibility(A)
                solver = SublinearSdp(eps=eps, method=method, constant=chosen.constant)
                began = time.process_time()
                most = chosen.cap / 20
                result = solve(problem, solver, max_time=most, certify=False, random_state=0)
                seconds, T = time.process_time() - began, solver.iterations(problem)
                yield {
                    "method": method,
                    "grows": what,
                    "n": n,
                    "m": m,
                    "eps": eps,
                    "rounds": T,
                    "read": float(problem.ledger.entries_read / result.n_iter * T),
                    "s": seconds / result.n_iter * T,
                }


def exponents(rows: list[dict[str, Any]]) -> str:
    """A table of the fitted exponents and of those of the theorem."""
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        for what in SIZES:
            of = [row for row in rows if row["method"] == method and row["grows"] == what]
            sizes = [1 / row["eps"] if what == "1/eps" else row[what] for row in of]
            read, seconds = (exponent(sizes, [row[name] for row in of]) for name in ("read", "s"))
            table.append([method, what, f"{read:.2f}", THEORY[what]["read"], f"{seconds:.2f}", THEORY[what][method]])
    return markdown(["method", "in", "entries", "theorem", "seconds", "theorem"], table)


PARTS: dict[str, Callable[[Any], Iterator[dict[str, Any]]]] = {
    "maxcut": part_maxcut,
    "theta": part_theta,
    "feasibility": part_feasibility,
    "error": part_error,
    "growth": part_growth,
}

if __name__ == "__main__":
    main()
