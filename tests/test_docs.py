"""The table of solvers is complete and true."""

import re
from pathlib import Path

import pytest

from maxmargin.problems import SlackSVM
from maxmargin.solvers import SOLVERS

PAGE = Path(__file__).parents[1] / "docs" / "solvers.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not part of an installed package")
def test_every_solver_has_a_true_line() -> None:
    lines = re.findall(r"^\| `(\w+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
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
