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


def loaded_by(code):
    code = f"import sys\n{code}\nprint(*sorted(name for name in sys.modules if name.startswith('maxmargin.')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines()[-1].split())


def test_an_estimator_does_not_import_what_it_may_never_use():
    loaded = loaded_by("from maxmargin import SVC")
    rooms = {name.split(".")[1] for name in loaded}
    assert rooms.isdisjoint({"ball", "sdp", "game", "display", "cli"})
    assert not any("persistence" in name for name in loaded)


def test_solvers_are_found_by_name_whatever_was_imported():
    code = (
        "from maxmargin import LinearSVC; LinearSVC(solver='simba', slack=0.0, max_iter=1).fit([[0.0], [1.0]], [0, 1])"
    )
    assert "maxmargin.svm.linear.simba" in loaded_by(code)


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
    assert "belongs to" in str(error)
else:
    raise AssertionError
"""
    loaded_by(code)
