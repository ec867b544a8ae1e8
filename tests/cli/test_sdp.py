"""`maxmargin sdp`, from a file to an answer."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from maxmargin.cli.app import app
from maxmargin.data import write_sdpa

FAST = ["--eps", "0.1", "--constant", "0.3", "--tol", "0.1", "--random-state", "0"]


def pentagon():
    """The theta number of a cycle of five, sqrt 5; the trace is one of the equalities."""
    A = np.zeros((6, 5, 5))
    for i in range(5):
        A[i, i, (i + 1) % 5] = A[i, (i + 1) % 5, i] = 1
    A[5] = np.eye(5)
    return np.ones((5, 5)), A, np.eye(1, 6, 5)[0]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, exits=0):
        result = CliRunner().invoke(app, ["sdp", *map(str, args)])
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def files(tmp_path):
    C, A, b = pentagon()
    write_sdpa(tmp_path / "theta.dat-s", C, A, b)
    np.savez(tmp_path / "theta.npz", C=C, A=A, b=b, sense="=", trace_bound=1.0, trace="exactly")
    return tmp_path


@pytest.mark.parametrize("name", ["theta.dat-s", "theta.npz"])
def test_from_a_file_to_a_factor(run, files, name):
    result = run(name, *FAST, "--output", "answer.npz", "--json")
    about = json.loads(result.stdout)
    with np.load(files / "answer.npz") as file:
        answer = dict(file)
    X = answer["factor"] @ answer["factor"].T
    C, A, b = pentagon()
    assert about["bound"] >= np.sqrt(5) - 1e-6
    assert about["value"] == pytest.approx(np.vdot(C, X))
    assert about["violation"] == pytest.approx(np.abs(np.tensordot(A, X, 2) - b).max(), abs=1e-9)
    assert about["rank"] == answer["factor"].shape[1]
    assert about["entries_read"] > 0
    assert about["trace"] == "exactly"
    assert float(answer["value"]) == about["value"]
    assert "asked for a value of" in result.stderr


def test_what_a_person_reads(run, files):
    out = run("theta.npz", *FAST, "--max-tries", "2").stdout
    for word in ("value", "bound", "violation", "rank", "read", "stopped"):
        assert word in out
    assert run("theta.npz", *FAST, "--max-tries", "1", "--quiet").output == ""


def test_the_same_seed_gives_the_same_answer(run, files):
    one, two = (json.loads(run("theta.npz", *FAST, "--json", "--quiet").stdout) for _ in range(2))
    assert one["value"] == two["value"]


def test_an_infeasible_program(run, tmp_path):
    np.savez(tmp_path / "no.npz", A=np.eye(2)[None], b=[2.0], trace_bound=1.0)
    about = json.loads(run("no.npz", *FAST, "--json", "--quiet").stdout)
    assert about["status"] == "infeasible"
    assert about["bound"] is None
    assert "no X is feasible" in run("no.npz", *FAST).stdout


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("missing.dat-s", None, [], "No such file"),
        ("broken.dat-s", "1\n1\n2\n1\n0 1 1 1\n", [], "broken.dat-s, line 5: found 4 words"),
        ("free.dat-s", "1\n1\n2\n1\n1 1 1 1 1\n", [], "has no trace bound"),
        ("free.dat-s", "1\n1\n2\n1\n1 1 1 1 1\n", ["--trace-bound", "-1"], "trace_bound must be a positive number"),
        ("free.dat-s", "1\n1\n2\n1\n1 1 1 1 1\n", ["--trace-bound", "1", "--eps", "2"], "eps must be between 0 and 1"),
        ("free.dat-s", "1\n1\n2\n1\n1 1 1 1 1\n", ["--output", "free.dat-s"], "is the data"),
    ],
)
def test_errors_take_one_line(run, tmp_path, name, content, options, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    result = run(name, *options, exits=2)
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_method_that_is_not_known(run, files):
    assert "is not one of" in run("theta.npz", "--method", "magic", exits=2).stderr
