"""What an import costs, counted in modules."""

import subprocess
import sys

import pytest

import maxmargin


def imported(code, *before):
    """The packages that are imported by some code, beyond those that others import."""
    code = f"""
import sys
{"; ".join(f"import {name}" for name in before)}
before = set(sys.modules)
try:
    {code}
except SystemExit:
    pass
print()
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}})
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    packages = set(done.stdout.splitlines()[-1].split()) - sys.stdlib_module_names
    # Cython makes a module in memory for the types that compiled modules share: nothing is imported for it.
    return {name for name in packages if not name.startswith("_cython_")}


def test_nothing_but_scikit_learn_is_imported():
    """Drawing, tables, the command and their packages are imported when they are used."""
    assert imported("from maxmargin import SVC, LinearSVC", "sklearn.svm") == {"maxmargin"}


@pytest.mark.parametrize("name", ["LinearSVC", "SVC"])
def test_a_first_fit_imports_no_solver_that_it_does_not_use(name):
    """All solvers would take longer to import than a small fit takes."""
    code = f"""
import sys
import numpy as np
from maxmargin import {name}
X = np.arange(40.0).reshape(20, 2) % 7
{name}().fit(X, np.arange(20) % 2)
unused = ("maxmargin.ball", "maxmargin.sdp", "maxmargin.svm.linear.simba", "maxmargin.svm.kernel.pegasos")
print(*sys.modules.keys() & set(unused))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []


def test_names_are_imported_when_they_are_used():
    assert imported("import maxmargin") == {"maxmargin"}


@pytest.mark.parametrize("args", [["--help"], ["--version"], [], ["nonsense"]])
def test_the_command_does_not_wait_for_what_it_does_not_use(args):
    code = f"sys.argv[1:] = {args}; from maxmargin.cli import main; main()"
    assert imported(code).isdisjoint({"numpy", "scipy", "sklearn", "joblib", "matplotlib", "rich"})


@pytest.mark.parametrize("name", maxmargin.__all__)
def test_every_name_is_there(name):
    assert getattr(maxmargin, name).__name__ == name
    assert name in dir(maxmargin)


def test_packages_are_attributes_and_other_names_are_not():
    code = "import maxmargin; maxmargin.solvers.Simba, maxmargin.data.read_table, maxmargin.problems.SlackSVM"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = maxmargin.nonsense
