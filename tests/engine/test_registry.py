"""The registry of solvers: who is in it, and who cannot be."""

from dataclasses import dataclass

import pytest

from maxmargin.engine import registry
from maxmargin.problems import SlackSVM
from maxmargin.solvers import KERNEL_SOLVERS, OTHER_SOLVERS, SOLVERS, CoreSet, KernelSdca, Sdca, Solver


@pytest.fixture(autouse=True)
def a_registry_of_its_own(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._all_registered()))


def define(**attributes):
    """A new class of a solver, as a cell of a notebook defines it."""
    return type("Mine", (Solver,), {"__module__": "notebook", "__qualname__": "Mine", **attributes})


def test_a_variant_without_a_name_of_its_own_replaces_nobody():
    @dataclass(frozen=True)
    class Mine(Sdca):
        pass

    assert SOLVERS["sdca"] is Sdca
    assert Mine().name == "sdca"


def test_a_solver_is_seen_once_it_is_defined_and_may_be_defined_again():
    assert "mine" not in SOLVERS
    before = len(SOLVERS)
    define(name="mine", solves=SlackSVM)
    again = define(name="mine", solves=SlackSVM)
    assert SOLVERS["mine"] is again
    assert len(SOLVERS) == before + 1
    assert "mine" not in KERNEL_SOLVERS


def test_a_name_belongs_to_one_solver():
    with pytest.raises(ValueError, match=r"the name .sdca. belongs to maxmargin.*Sdca already; give Mine a name"):
        define(name="sdca", solves=SlackSVM)
    assert SOLVERS["sdca"] is Sdca
    assert KERNEL_SOLVERS["sdca"] is KernelSdca  # on a kernel, it is another table


def test_a_solver_states_what_it_solves():
    with pytest.raises(TypeError, match="Mine must state which problem it solves"):
        define(name="mine")


def test_each_table_has_its_own():
    assert OTHER_SOLVERS["core_set"] is CoreSet
    assert "core_set" not in SOLVERS
    with pytest.raises(KeyError):
        SOLVERS["no such solver"]
