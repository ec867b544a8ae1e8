"""The effect of the choices of Pegasos: order, average, projection, batches, and how a free bias is learned.

    python benchmarks/pegasos.py --json pegasos.json

The tables show how far the objective is above the best one, in per cent, after some passes over the data; a pass makes
as many visits as there are rows. The best objective is that of dual coordinate ascent at a gap of 2e-5. Values are
medians of several seeds. Three tables are on the Adult data that comes with the package, one is on 3,000 points of 20
features around a mean far from zero. With a free bias, the first values use the bias that was learned; the value after
the semicolon is the last one with the best bias for the same w. In brackets: the relative gap of the last certificate.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import arguments, markdown, parse_with_threads, write_json

from maxmargin import RegularizedSVM, solve
from maxmargin.data import as_matrix, load_adult
from maxmargin.solvers import Pegasos, Sdca

CHOICES = {
    "default: permuted passes, average with weights t^3": Pegasos(),
    "the paper: rows drawn from all, last iterate": Pegasos(order="iid", average=None),
    "rows drawn from all, average with weights t^3": Pegasos(order="iid"),
    "permuted passes, last iterate": Pegasos(average=None),
    "permuted passes, plain mean (`average=0`)": Pegasos(average=0.0),
    "no projection": Pegasos(project=False),
    "batches of 20": Pegasos(batch=20),
}
BATCHES = {"default": Pegasos(), "batches of 20": Pegasos(batch=20)}
BIASES = {
    '`"step"`': Pegasos(free_bias="step"),
    '`"search"`': Pegasos(free_bias="search"),
    '`"feature"`': Pegasos(free_bias="feature"),
    '`"batch"`, batches of 20': Pegasos(batch=20, free_bias="batch"),
    '`"batch"`, batches of 200': Pegasos(batch=200, free_bias="batch"),
}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    chosen = parse_with_threads(parser)
    X, y, _, _ = load_adult()
    adult = as_matrix(X), y
    figures: list[dict[str, Any]] = []
    squared = {"loss": "squared_hinge", "bias": False}
    for title, data, Cs, options, passes, methods in (
        ("Adult, hinge loss, no bias", adult, (0.1, 1.0), {"bias": False}, (1, 5, 20), CHOICES),
        ("Adult, squared hinge loss, no bias", adult, (0.1, 1.0), squared, (1, 5, 20), BATCHES),
        ("Adult, hinge loss, free bias", adult, (0.1, 1.0), {}, (1, 5, 20), BIASES),
        ("points around a far mean, hinge loss, free bias", far_points(), (0.1, 1.0, 10.0), {}, (1, 5, 30), BIASES),
    ):
        problems = [RegularizedSVM(*data, C, **options) for C in Cs]
        best = [solve(problem, Sdca(), tol=2e-5, random_state=0).certificate.primal for problem in problems]
        rows = []
        for name, solver in methods.items():
            runs = [[curve(problem, solver, passes, seed) for seed in chosen.seeds] for problem in problems]
            rows.append([name, *(described(*cell, problems[0].free_bias) for cell in zip(runs, best, strict=True))])
            for C, value, own in zip(Cs, best, runs, strict=True):
                figures.append({"table": title, "method": name, "C": C, "best": value, "passes": passes, "runs": own})
        print(f"\n{title}; after {', '.join(map(str, passes))} passes\n")
        print(markdown(["", *(f"C = {C:g}" for C in Cs)], rows), flush=True)
    write_json(chosen.json, figures)


def far_points() -> tuple[np.ndarray, np.ndarray]:
    """Two clouds that overlap, one of them with twice as many points, around a mean whose norm exceeds their width."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(3000) % 3 == 0, 1.0, -1.0)
    return rng.normal(size=(3000, 20)) + 0.3 * y[:, None] + 3.0, y


def curve(problem: RegularizedSVM, solver: Pegasos, passes: tuple[int, ...], seed: int) -> list[dict[str, float]]:
    """The objective with the learned bias and with the best bias, and the relative gap, after each number of passes."""
    found, result = [], None
    for count in passes:
        result = solve(
            problem, solver, max_iter=count * solver.iterations_per_pass(problem), random_state=seed, warm=result
        )
        answer, proved = solver.solution(problem, result.state), result.certificate
        learned = problem.evaluate(answer.w, answer.b).value
        found.append({"learned": learned, "best_bias": proved.primal, "gap": proved.relative_gap})
    return found


def described(runs: list[list[dict[str, float]]], best: float, free_bias: bool) -> str:
    def above(key: str, check: int) -> str:
        return percent(np.median([run[check][key] for run in runs]) / best - 1)

    learned = ", ".join(above("learned", check) for check in range(len(runs[0])))
    corrected = f"; {above('best_bias', -1)}" if free_bias else ""
    return f"{learned}{corrected} ({percent(np.median([run[-1]['gap'] for run in runs]))})"


def percent(share: float) -> str:
    return f"{100 * share:.2f}" if share < 0.1 else f"{100 * share:.0f}"


if __name__ == "__main__":
    main()
