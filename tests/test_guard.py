"""Counts that do not depend on the machine, of fixed runs of the main solvers, against those on record."""

import json

import pytest
from guarded_runs import MEMORY, RECORD, RECORDED, RUNS, differences


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text())


@pytest.mark.parametrize("name", RUNS)
def test_counts_are_those_on_record(name, recorded):
    lines = differences(recorded.get(name, {}), RUNS[name].counts(), RUNS[name].tolerance)
    assert not lines, "\n".join([f"{name} counts differently:", *lines, f"If that is meant, record it: {RECORD}"])


def test_every_run_is_on_record(recorded):
    assert list(recorded) == list(RUNS)


def test_a_difference_names_both_counts():
    found = differences({"learning": 1_000, MEMORY: 100}, {"learning": 1_100, MEMORY: 110, "index": 5}, tolerance=0.05)
    assert found == ["index: 0 recorded, now 5", "learning: 1,000 recorded, now 1,100 (+10.0%)"]
