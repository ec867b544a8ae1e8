"""Data that comes through pipes trains the model and gets the labels that the same data in a file does."""

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
from typer.testing import CliRunner

from maxmargin import load_model
from maxmargin.cli.app import app

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes there")

FORMATS = ["libsvm", "csv", "npy", "npz"]
FAST = ["--slack", "0.05", "--max-iter", "60", "--random-state", "0"]
N = 4000


def rows():
    y = np.where(np.arange(N) % 2, 1, -1)
    return np.random.default_rng(0).normal(size=(N, 5)).round(6) + y[:, None], y


def bytes_of(name):
    X, y = rows()
    file = io.BytesIO()
    match name:
        case "libsvm":
            pairs = (" ".join(f"{j}:{x!r}" for j, x in enumerate(row, 1)) for row in X.tolist())
            return "".join(f"{label} {of}\n" for label, of in zip(y, pairs, strict=True)).encode()
        case "csv":
            np.savetxt(file, np.column_stack([X, y]), delimiter=",", fmt="%.17g")
        case "npy":
            np.save(file, np.column_stack([X, y]))
        case "npz":
            np.savez(file, X=X, y=y)
    return file.getvalue()


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, exits=0, stdin=None):
        result = CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


def fifo(data):
    """A named pipe, written by a thread that ends when the reader has read it."""
    path = f"pipe{len(os.listdir())}"
    os.mkfifo(path)

    def feed():
        with open(path, "wb") as file:
            file.write(data)

    threading.Thread(target=feed, daemon=True).start()
    return path


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_every_command_reads_every_format_from_a_pipe(run, tmp_path, name, pack):
    data = bytes_of(name)
    path = tmp_path / f"rows.{name}"
    path.write_bytes(data)
    data = pack(data)
    run("train", path, *FAST, "--model", "file.mm")
    wanted = load_model("file.mm").coef_.tolist()
    options = [*FAST, "--json", "--quiet", "--model", "pipe.mm"]
    for source, stdin in (("-", data), (fifo(data), None)):
        about = json.loads(run("train", source, "--test", fifo(data), *options, stdin=stdin).stdout)
        assert (about["rows"], about["test_rows"]) == (N, N)
        assert load_model("pipe.mm").coef_.tolist() == wanted
    expected = run("predict", "file.mm", path).stdout
    assert run("predict", "file.mm", "-", stdin=data).stdout == expected
    assert run("predict", "file.mm", fifo(data)).stdout == expected
    options = ["--json", "--quiet", *(["--label-column", "last"] if name in ("csv", "npy") else [])]
    radius = json.loads(run("ball", path, *options).stdout)["radius"]
    about = json.loads(run("ball", "-", *options, "--model", "ball.mm", stdin=data).stdout)
    assert (about["rows"], about["radius"]) == (N, radius)


def test_what_comes_from_a_pipe_has_no_name_for_the_result(run):
    assert "give a name with --model FILE" in run("train", "-", exits=2, stdin=b"1 1:1\n").stderr
    assert "give a name with --model FILE" in run("ball", "-", exits=2, stdin=b"1 1:1\n").stderr


def test_a_pipe_is_not_read_twice(run):
    result = run("train", "-", "--test", "-", "--model", "m.mm", exits=2, stdin=b"1 1:1\n-1 1:2\n")
    assert "standard input, which can be read only once" in result.stderr
    assert not os.path.exists("m.mm")


@pytest.mark.parametrize("command", ["train", "predict", "ball"])
def test_what_is_wrong_with_a_stream_is_said(run, tmp_path, command):
    (tmp_path / "rows.csv").write_bytes(bytes_of("csv"))
    run("train", "rows.csv", *FAST, "--model", "m.mm")
    before = set(os.listdir())
    args = {"train": ["-", "--model", "x"], "predict": ["m.mm", "-"], "ball": ["-", "--model", "x"]}[command]
    cut = gzip.compress(bytes_of("libsvm"))[:-1000]
    for stdin, says in (b"", "standard input: no rows"), (cut, r"standard input, line"), (b"PAR1\0", "a Parquet file"):
        result = run(command, *args, exits=2, stdin=stdin)
        assert says in result.stderr
        assert result.stdout == ""
    assert set(os.listdir()) == before


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash there")
def test_a_shell_as_people_use_it(run, tmp_path):
    (tmp_path / "rows.libsvm").write_bytes(bytes_of("libsvm"))
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(bytes_of("csv")))
    script = f"""
        set -e
        maxmargin() {{ {sys.executable} -m maxmargin.cli "$@"; }}
        cat rows.libsvm | maxmargin train /dev/stdin {" ".join(FAST)} --model pipe.mm --test <(gzip -dc rows.csv.gz)
        cat rows.csv.gz | maxmargin predict pipe.mm -
    """
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"/dev/stdin: {N:,} rows, 5 features" in done.stdout
    assert f"of {N:,} rows of /dev/fd/" in done.stdout
    run("train", "rows.libsvm", *FAST)
    assert load_model("pipe.mm").coef_.tolist() == load_model("rows.mm").coef_.tolist()
    labels = run("predict", "rows.mm", "rows.libsvm").stdout
    assert done.stdout.endswith(labels)
