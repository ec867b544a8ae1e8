"""The files of what was measured: what is written is read, and the command is one that others can type."""

import importlib
import json
from argparse import ArgumentParser
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
if not BENCHMARKS.exists():
    pytest.skip("the benchmarks come with a checkout only", allow_module_level=True)


@pytest.fixture
def records(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("records")


def test_what_is_written_is_read(records, tmp_path):
    rows = [{"set, of digits": "MNIST", "s": "1.5"}, {"set, of digits": 'a "b"', "s": ""}]
    record = records.Record({"command": "a: b", "date": "2026-11-18", "machine": "2 cores"}, rows)
    records.write(tmp_path / "a.csv", record)
    assert records.read(tmp_path / "a.csv") == record


def test_the_command_has_no_paths_of_this_machine(records):
    typed = ["/home/me/benchmarks/a.py", "--peers-python", "/opt/python", "--sets", "covtype 50k", "--csv", "x.csv"]
    assert records.command(typed) == 'benchmarks/a.py --peers-python PYTHON --sets "covtype 50k"'


def test_tables_are_kept_from_a_file_of_figures(records, tmp_path, monkeypatch):
    figures = tmp_path / "a.json"
    figures.write_text(json.dumps([{"set": "MNIST", "s": 1.5}, {"set": "Adult", "s": 0.5}]))
    options = ["--quick", "--from", str(figures), "--csv", str(tmp_path / "a.csv")]
    monkeypatch.setattr("sys.argv", ["benchmarks/a.py", *options])
    parser = ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    records.add_options(parser)
    chosen = parser.parse_args(options)
    rows = records.kept(chosen, set="Adult")
    assert rows == [{"set": "Adult", "s": 0.5}]
    records.keep(chosen, rows, "_small")
    kept = records.read(tmp_path / "a_small.csv")
    assert kept.rows == [{"set": "Adult", "s": "0.5"}]
    assert kept.made["command"] == "benchmarks/a.py --quick"
