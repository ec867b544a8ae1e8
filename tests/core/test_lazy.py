"""Names that are imported when they are used."""

import subprocess
import sys

import pytest

from maxmargin import data, estimators, problems, solvers


@pytest.mark.parametrize("module", [data, estimators, problems, solvers])
def test_every_name_is_listed_and_there(module):
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is getattr(module, name)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = module.nonsense


IMPORTS = """
import sys
from maxmargin import SVC, LinearSVC
print(*(name for name in sys.modules if name.startswith("maxmargin.")))
LinearSVC(solver="simba", slack=0.0, max_iter=1).fit([[0.0], [1.0]], [0, 1])
print(*(name for name in sys.modules if name.startswith("maxmargin.")))
"""


def output_of(code):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_an_estimator_imports_what_it_uses_and_no_more():
    """A solver is found by its name though it was not imported."""
    loaded, after_a_fit = (set(line.split()) for line in output_of(IMPORTS).splitlines())
    rooms = {name.split(".")[1] for name in loaded}
    assert rooms.isdisjoint({"ball", "sdp", "game", "display", "cli"})
    assert not any("persistence" in name for name in loaded)
    assert "maxmargin.svm.linear.simba" in after_a_fit - loaded


def test_the_name_of_a_solver_that_is_not_imported_yet_is_taken():
    code = """
from maxmargin.engine.solver import Solver
from maxmargin import SVC
from maxmargin.svm.slack import SlackSVM
import maxmargin.solvers
try:
    class Other(Solver):
        name = "simba"
        solves = SlackSVM
except ValueError as error:
    print(error)
"""
    assert "belongs to" in output_of(code)
