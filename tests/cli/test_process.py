"""The command as a process of its own: signals, pipes, what is installed."""

import signal
import subprocess
import sys

import numpy as np
import pytest
from commands import start_command

from maxmargin import __version__, load_model, save_model
from maxmargin.estimators import LinearSVC

# Training that goes on until its time is up.
ENDLESS = ("--solver", "simba", "--slack", "0.1", "--max-iter", "1000000000", "--max-time", "90", "--no-certify")


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(300) % 3
    np.savez(tmp_path / "rows.npz", X=rng.normal(size=(300, 20)) + y[:, None], y=y)
    return tmp_path / "rows.npz"


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "maxmargin.cli", "--version"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"maxmargin {__version__}\n", "")


@pytest.mark.parametrize("library", ["typer", "rich"])
def test_without_its_libraries_the_command_says_how_to_get_them(library):
    code = f"import sys; sys.modules[{library!r}] = None; from maxmargin.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"maxmargin: the command needs {library}, which is not installed: pip install 'maxmargin[cli]', or from a "
        "clone pip install '.[cli]'\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process there")
def test_ctrl_c_keeps_the_best_model_so_far(rows, tmp_path):
    with start_command("train", rows, *ENDLESS, cwd=tmp_path) as process:
        assert "maxmargin: training for 2 s; " in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "interrupted: the best model so far was kept and is in rows.mm" in err
    assert "interrupted" in out
    model = load_model(tmp_path / "rows.mm")
    assert "interrupted" in model.stopped_
    assert {path.name for path in tmp_path.iterdir()} == {"rows.npz", "rows.mm"}


def test_a_pipe_that_is_closed_is_no_error(tmp_path):
    X = np.tile([[0.0, 1.0], [1.0, 0.0]], (200_000, 1))
    labels = np.tile(["a label that is long", "another one"], 200_000)
    save_model(LinearSVC(slack=0.0, max_iter=5).fit(X[:10], labels[:10]), tmp_path / "m.mm")
    np.savez(tmp_path / "rows.npz", X=X)
    with start_command("predict", tmp_path / "m.mm", tmp_path / "rows.npz") as process:
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) in (0, 1)
