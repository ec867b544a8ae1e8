"""The table of solvers is complete and true."""

import re
from pathlib import Path

import pytest

from maxmargin.problems import SlackSVM
from maxmargin.solvers import KERNEL_SOLVERS, SOLVERS

PAGE = Path(__file__).parents[1] / "docs" / "solvers.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not part of an installed package")
def test_every_solver_has_a_true_line() -> None:
    lines = lines_of(PAGE.read_text().split("## Kernel solvers")[0])
    assert {name for name, _ in lines} == set(SOLVERS)
    for name, line in lines:
        problem, loss, _, stops, warm, _ = (cell.strip() for cell in line.split("|"))
        solver = SOLVERS[name]
        assert problem.startswith("slack") == (solver.solves is SlackSVM), name
        assert (problem == "slack 0") == solver.separable_only, name
        assert loss == ("hinge" if solver.solves is SlackSVM else "squared hinge" if solver.smooth_only else "both"), (
            name
        )
        assert stops.startswith("gap") == (solver.default_tol is not None), name
        assert warm == ("goes on" if solver.online else "yes" if solver.resumes else "no"), name


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not part of an installed package")
def test_every_kernel_solver_has_a_true_line() -> None:
    lines = lines_of(PAGE.read_text().split("## Kernel solvers")[1])
    assert {name for name, _ in lines} == set(KERNEL_SOLVERS)
    for name, line in lines:
        problem, _, _, _, stops, _ = (cell.strip() for cell in line.split("|"))
        solver = KERNEL_SOLVERS[name]
        assert problem.startswith("slack") == (solver.solves is SlackSVM), name
        assert stops.startswith("gap") == (solver.default_tol is not None), name


def lines_of(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^\| `(\w+)` \|(.*)\|$", text, re.MULTILINE)
