"""`maxmargin ball`, from files to files."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

from maxmargin import EnclosingBall, load_model
from maxmargin.cli.app import app
from maxmargin.data import write_libsvm


def rows(n=80, d=4):
    return np.random.default_rng(0).normal(size=(n, d)) + 1


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command in an empty folder; it must succeed unless another exit code is expected."""
    monkeypatch.chdir(tmp_path)

    def call(*args, exits=0, command=("ball",)):
        result = CliRunner().invoke(app, [*command, *map(str, args)])
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
    found = load_model("rows.ball.mm")
    np.testing.assert_allclose(found.center_, wanted.center_, atol=1e-4)
    assert found.radius_ == pytest.approx(wanted.radius_, rel=1e-5)


def test_names_of_columns_reach_the_ball(run, tmp_path):
    path = tmp_path / "rows.csv"
    np.savetxt(path, rows(), delimiter=",", header="a,b,c,d", comments="")
    run("rows.csv", "--model", "b.mm")
    assert load_model("b.mm").feature_names_in_.tolist() == ["a", "b", "c", "d"]
    np.savetxt(path, rows(), delimiter=",", header="b,a,c,d", comments="")
    assert "in another order" in run("b.mm", "rows.csv", command=("predict",), exits=2).stderr


def test_what_is_printed(run, tmp_path):
    path = written(tmp_path, "rows.svm")
    text = run(path).stdout
    for part in ("80 rows, 4 features", "within", "% of the least possible", "core_set", "rows.ball.mm"):
        assert part in text
    model = EnclosingBall().fit(rows())
    assert f"radius         {model.radius_:.6g}; no ball has less than {model.objective_bound_:.6g}" in text
    assert run(path, "--quiet").output == ""


def test_the_objective_of_a_soft_ball_is_not_its_radius(run, tmp_path):
    path = written(tmp_path, "rows.svm")
    text = run(path, "--nu", "0.1").stdout
    model = EnclosingBall(0.1).fit(rows())
    squares = np.sort(((rows() - model.center_) ** 2).sum(axis=1))
    assert model.objective_ == pytest.approx(np.sqrt(squares[-8:].mean()), rel=1e-9)
    assert model.radius_ < model.objective_bound_ <= model.objective_
    assert f"radius         {model.radius_:.6g}\n" in text
    objective = f"objective      {model.objective_:.6g}, the root mean square distance of the farthest 0.1 of the rows"
    assert f"{objective}; no ball has less than {model.objective_bound_:.6g}\n" in text
    assert "the root mean square distance of the farthest rows, " in text
    about = json.loads(run(path, "--json", "--quiet", "--nu", "0.1").stdout)
    assert about["radius"] == pytest.approx(model.radius_, rel=1e-6)
    assert about["n_outside"] == (model.predict(rows()) == -1).sum()
    assert about["objective_bound"] <= about["objective"]


def test_the_model_predicts_and_informs(run, tmp_path):
    path = written(tmp_path, "rows.npy")
    options = ["--kernel", "rbf", "--gamma", "0.5", "--nu", "0.1", "--model", "out.mm", "--label-column", "last"]
    told = run(path, *options).stdout
    model = EnclosingBall(0.1, kernel="rbf", gamma=0.5).fit(rows())
    np.save("plain.npy", rows())
    for data in path, "plain.npy":
        result = run(data, command=["predict", "out.mm"])
        assert result.stdout.split() == [str(label) for label in model.predict(rows())]
        assert result.stderr == ""
    scores = run(path, "--decision", command=["predict", "out.mm"]).stdout.split()
    assert [float(score) for score in scores] == model.decision_function(rows()).tolist()
    text = run(command=["info", "out.mm"]).stdout
    assert text.startswith(told.partition("model  ")[0])
    assert "to learn" in text
    assert json.loads(run("--json", command=["info", "out.mm"]).stdout)["kernel"]["fields"]["gamma"] == 0.5


def test_the_sublinear_solver(run, tmp_path):
    path = written(tmp_path, "rows.npy")
    about = json.loads(
        run(path, "--solver", "sublinear_ball", "--max-iter", 100, "--random-state", 0, "--json", "--quiet").stdout
    )
    assert (about["solver"], about["n_iter"]) == ("sublinear_ball", 100)
    budget = ("--eps", 0.5, "--budget", 3000)
    about = json.loads(run(path, "--solver", "sublinear_ball", *budget, "--json", "--quiet").stdout)
    assert about["problems"][0]["stopped"] == "budget"
    assert about["entries_read"] <= 3000


def test_all_columns_are_features_unless_one_is_left_out(run, tmp_path):
    for name, features in (("rows.csv", 5), ("rows.npy", 5), ("rows.svm", 4), ("rows.npz", 4)):
        path = written(tmp_path, name)
        assert json.loads(run(path, "--json", "--quiet").stdout)["n_features_in"] == features
    assert json.loads(run("rows.csv", "--label-column", "0", "--json", "--quiet").stdout)["n_features_in"] == 4
    words = tmp_path / "words.csv"
    words.write_text("1.0,2.0,a\n2.0,3.0,b\n")
    assert "--label-column 2" in run(words, exits=2).stderr
    assert "(the last of 3 columns) are left out" in run(words, "--label-column", "last").stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gamma", "1"], "--gamma needs --kernel"),
        (["--kernel", "rbf", "--solver", "sublinear_ball"], "cannot be used with --kernel"),
        (["--eps", "0.1"], "--eps needs --solver sublinear_ball"),
        (["--eps", "2", "--solver", "sublinear_ball"], "eps must be between 0 and 1"),
        (["--nu", "2"], "'nu' parameter"),
        (["--model", "nowhere/out.mm"], "cannot write"),
        (["--budget", "3"], "too small for one iteration"),
    ],
)
def test_errors_are_a_line(run, tmp_path, options, message):
    result = run(written(tmp_path, "rows.svm"), *options, exits=2)
    assert message in result.stderr
    assert "Traceback" not in result.output
