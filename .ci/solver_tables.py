"""Write the tables of docs/solvers.md from the solvers themselves; `--check` only reports whether they are up to date.

The script gives each problem to each solver to find out what the solver takes, so the tables agree with the code.
"""

import inspect
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from maxmargin.kernels.functions import Rbf
from maxmargin.problems import LOSSES, KernelMatrix, RegularizedSVM, SlackSVM
from maxmargin.solvers import KERNEL_SOLVERS, OTHER_SOLVERS, SOLVERS, Solver, solve

PAGE = Path(__file__).parents[1] / "docs" / "solvers.md"
COMMAND = "python .ci/solver_tables.py"

BIASES = {"free": {}, "none": {"bias": False}, "penalised": {"intercept_scaling": 1.0}}
y = np.where(np.arange(12) % 2, 1.0, -1.0)
POINTS = np.column_stack([y, np.linspace(-1, 1, 12)])


def takes(solver: Solver, problem: SlackSVM | RegularizedSVM) -> bool:
    try:
        solve(problem, solver, max_iter=1, certify=False, random_state=0)
    except (TypeError, ValueError):
        return False
    return True


def problem_of(solver: Solver, X: object) -> str:
    if takes(solver, RegularizedSVM(X, y, loss="squared_hinge")) or takes(solver, RegularizedSVM(X, y, loss="hinge")):
        return "C"
    return "slack" if takes(solver, SlackSVM(X, y, slack=0.05)) else "slack 0"


def losses_of(solver: Solver, X: object) -> str:
    losses = [loss for loss in LOSSES if takes(solver, RegularizedSVM(X, y, loss=loss))]
    return "both" if len(losses) == len(LOSSES) else (losses or ["hinge"])[0].replace("_", " ")


def biases_of(solver: Solver, X: object) -> str:
    def with_bias(options: dict[str, object]) -> bool:
        if problem_of(solver, X) == "C":
            return any(takes(solver, RegularizedSVM(X, y, loss=loss, **options)) for loss in LOSSES)
        return "intercept_scaling" not in options and takes(solver, SlackSVM(X, y, slack=0.0, **options))

    biases = [bias for bias, options in BIASES.items() if with_bias(options)]
    return "any" if len(biases) == len(BIASES) else ", ".join(biases)


def end_of(solver: Solver, X: object) -> str:
    """What ends a run without stop rules."""
    if solver.default_tol is not None:
        return f"gap {100 * solver.default_tol:g} %"
    problem = RegularizedSVM(X, y) if issubclass(RegularizedSVM, solver.solves) else SlackSVM(X, y, slack=0.0)
    return "default iterations" if solver.iterations(problem) is None else "the algorithm's own end"


def warm_start_of(solver: Solver) -> str:
    return "continues" if solver.online else "yes" if solver.resumes else "no"


def summary_of(solver: type[Solver]) -> str:
    """The first paragraph of a solver's docstring, as Markdown."""
    text = (inspect.getdoc(solver) or "").split("\n\n")[0].replace("\n", " ")
    text = re.sub(r":math:`([^`]+)`", r"$`\1`$", text)
    return text.rstrip(".").replace("|", r"\|")


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def of_margin_problems(solvers: Mapping[str, type[Solver]], X: object) -> str:
    columns = ["solver", "class", "problem", "loss", "bias", "`max_iter`", "default stop", "warm start", "description"]
    rows = []
    for name, kind in sorted(solvers.items()):
        solver = kind()
        taken = [problem_of(solver, X), losses_of(solver, X), biases_of(solver, X)]
        unit = "passes" if solver.visits_samples else "iterations"
        run = [unit, end_of(solver, X), warm_start_of(solver)]
        rows.append([f"`{name}`", f"`{kind.__name__}`", *taken, *run, summary_of(kind)])
    return table(columns, rows)


def of_other_problems(solvers: Mapping[str, type[Solver]]) -> str:
    rows = []
    for name, kind in sorted(solvers.items()):
        rows.append([f"`{name}`", f"`{kind.__name__}`", f"`{kind.solves.__name__}`", summary_of(kind)])
    return table(["solver", "class", "problem", "description"], rows)


def tables() -> dict[str, str]:
    """The tables, by the names of their markers in the page."""
    return {
        "linear": of_margin_problems(SOLVERS, POINTS),
        "kernel": of_margin_problems(KERNEL_SOLVERS, KernelMatrix(POINTS, Rbf(gamma=1.0))),
        "other": of_other_problems(OTHER_SOLVERS),
    }


def renewed(page: str) -> str:
    """The page with up-to-date tables."""
    for name, text in tables().items():
        begin, end = f"<!-- {name} solvers: written by `{COMMAND}` -->", f"<!-- end of {name} solvers -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
    return page


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    new = renewed(page)
    if "--check" not in sys.argv:
        PAGE.write_text(new, encoding="utf-8")
    elif new != page:
        sys.exit(f"docs/solvers.md is out of date; run `{COMMAND}`")


if __name__ == "__main__":
    main()
