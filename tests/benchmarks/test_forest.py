"""The benchmark on Forest: what it stores and draws, without a run."""

import csv
import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
if not FOLDER.exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(FOLDER)
    forest = importlib.import_module("forest")

TABLE = [
    ("sbp", 20_000, 1.5, 2.5, 1e8, 900, 0.2),
    ("sbp", 20_000, 3.0, 5.5, 2e8, 1900, 0.1),
    ("intelex", 10_000, 7.0, 9.0, float("nan"), 800, 0.3),
]


def test_stored_tables_are_drawn_together(tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("sbp", "intelex"):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([forest.COLUMNS, *(row for row in TABLE if row[0] == name)])
    found = [row for name in ("sbp", "intelex") for row in forest.read(tmp_path / f"{name}.csv")]
    assert found[:2] == TABLE[:2]
    assert found[2][:4] == TABLE[2][:4]
    forest.plot(found, tmp_path / "forest.svg")
    drawn = (tmp_path / "forest.svg").read_text()
    for text in ("sbp: 10.00 %", "intelex, on 10,000 rows and more: 30.00 %", "LIBSVM (2012)", "1.6 %, 8.75 h"):
        assert text in drawn


def test_the_peer_learns_from_more_and_more_rows():
    assert list(forest.sizes(50_000)) == [10_000, 20_000, 40_000, 50_000]
    assert list(forest.sizes(9000)) == [9000]
