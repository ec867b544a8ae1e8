"""`maxmargin ball`, from files to files."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from maxmargin import EnclosingBall
from maxmargin.cli.app import app
from maxmargin.data import write_libsvm


def rows(n=80, d=4):
    return np.random.default_rng(0).normal(size=(n, d)) + 1


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command in an empty folder; it must succeed unless another exit code is expected."""
    monkeypatch.chdir(tmp_path)

    def call(*args, exits=0):
        result = CliRunner().invoke(app, ["ball", *map(str, args)])
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


def written(path, name):
    X, y = rows(), np.arange(80) % 2
    path = path / name
    match path.suffix:
        case ".csv":
            path.write_text("".join(",".join(map(repr, [*row, 0.0])) + "\n" for row in X.tolist()))
        case ".npy":
            np.save(path, np.column_stack([X, y]))
        case ".npz":
            own = sp.csr_array(X)
            np.savez(path, data=own.data, indices=own.indices, indptr=own.indptr, shape=own.shape, format=b"csr", y=y)
        case _:
            write_libsvm(path, X, y)
    return path


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv", "rows.npy", "rows.npz"])
def test_every_format_gives_the_same_ball(run, tmp_path, name):
    labels = ["--label-column", "last"] if name in ("rows.csv", "rows.npy") else []
    result = run(written(tmp_path, name), "--tol", "1e-6", *labels)
    assert "note: the labels of rows" in result.stderr
    wanted = EnclosingBall(tol=1e-6).fit(rows())
    with np.load(tmp_path / "rows.ball.npz", allow_pickle=False) as found:
        np.testing.assert_allclose(found["center"], wanted.center_, atol=1e-4)
        assert found["radius"] == pytest.approx(wanted.radius_, rel=1e-5)
        assert found["radius_lower"] <= found["radius_upper"]


def test_what_is_printed(run, tmp_path):
    path = written(tmp_path, "rows.svm")
    text = run(path, "--nu", "0.1").stdout
    for part in ("80 rows, 4 features", "within", "% of the least possible", "core_set", "rows.ball.npz", "outside"):
        assert part in text
    about = json.loads(run(path, "--json", "--quiet", "--nu", "0.1").stdout)
    model = EnclosingBall(0.1).fit(rows())
    assert about["radius"] == pytest.approx(model.radius_, rel=1e-6)
    assert about["n_outside"] == (model.predict(rows()) == -1).sum()
    assert about["radius_lower"] <= about["radius_upper"]
    assert run(path, "--quiet").stdout == ""


def test_a_kernel(run, tmp_path):
    options = ["--kernel", "rbf", "--gamma", "0.5", "--nu", "0.1", "--output", "out.npz", "--label-column", "last"]
    run(written(tmp_path, "rows.npy"), *options)
    model = EnclosingBall(0.1, kernel="rbf", gamma=0.5).fit(rows())
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["support"], model.support_)
        np.testing.assert_allclose(found["dual_coef"], model.dual_coef_)
        assert (str(found["kernel"]), float(found["gamma"])) == ("rbf", 0.5)


def test_the_sublinear_solver(run, tmp_path):
    path = written(tmp_path, "rows.npy")
    about = json.loads(
        run(path, "--solver", "sublinear_ball", "--max-iter", 100, "--random-state", 0, "--json", "--quiet").stdout
    )
    assert (about["solver"], about["n_iter"]) == ("sublinear_ball", 100)
    budget = ("--eps", 0.5, "--budget", 3000)
    about = json.loads(run(path, "--solver", "sublinear_ball", *budget, "--json", "--quiet").stdout)
    assert about["stopped"] == "budget"
    assert about["entries_read"] <= 3000


def test_all_columns_are_features_unless_one_is_left_out(run, tmp_path):
    for name, features in (("rows.csv", 5), ("rows.npy", 5), ("rows.svm", 4), ("rows.npz", 4)):
        path = written(tmp_path, name)
        assert json.loads(run(path, "--json", "--quiet").stdout)["features"] == features
    assert json.loads(run("rows.csv", "--label-column", "0", "--json", "--quiet").stdout)["features"] == 4
    words = tmp_path / "words.csv"
    words.write_text("1.0,2.0,a\n2.0,3.0,b\n")
    assert "--label-column 2" in run(words, exits=2).stderr
    assert "the last of 3 columns, are left out" in run(words, "--label-column", "last").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gamma", "1"], "--gamma needs --kernel"),
        (["--kernel", "rbf", "--solver", "sublinear_ball"], "which a kernel has not"),
        (["--eps", "0.1"], "--eps needs --solver sublinear_ball"),
        (["--eps", "2", "--solver", "sublinear_ball"], "eps must be between 0 and 1"),
        (["--nu", "2"], "'nu' parameter"),
        (["--output", "nowhere/out.npz"], "cannot write"),
        (["--budget", "3"], "too small for one iteration"),
    ],
)
def test_errors_are_a_line(run, tmp_path, options, message):
    result = run(written(tmp_path, "rows.svm"), *options, exits=2)
    assert message in result.stderr
    assert "Traceback" not in result.output
