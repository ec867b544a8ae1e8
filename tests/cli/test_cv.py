"""`maxmargin train --cv`: the best cell in words and numbers, and the model of it in the file."""

import io
import json
import re

import numpy as np
import pytest
from ctrl_c import ctrl_c_at_look
from rich.console import Console
from sklearn.datasets import make_moons
from typer.testing import CliRunner

from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV, load_model
from maxmargin.cli import progress
from maxmargin.cli.app import app
from maxmargin.cli.progress import ShowProgress
from maxmargin.cli.summary import _at_the_edge
from maxmargin.cli.train import edges
from maxmargin.data import write_libsvm

X, Y = make_moons(90, noise=0.3, random_state=0)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_libsvm(tmp_path / "rows.libsvm", X, Y)

    def call(*args, exits=0):
        result = CliRunner().invoke(app, ["train", "rows.libsvm", *map(str, args)])
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


def test_a_linear_model(run):
    text = run("--cv", 3, "--loss", "hinge", "--random-state", 0).stdout
    expected = LinearSVCCV(cv=3, loss="hinge", random_state=0).fit(X, Y)
    model = load_model("rows.mm")
    assert isinstance(model, LinearSVC)
    assert model.C == expected.C_
    assert re.search(r"chosen +C \S+: accuracy \d+\.\d\d% \+- \d\.\d\d% over 3 folds, of 10 cells\n", text)
    assert f"accuracy {expected.best_score_:.2%}" in text
    assert re.search(r"certificate +.*best possible at this C", text)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)


def test_a_kernel(run):
    about = json.loads(run("--cv", 3, "--kernel", "rbf", "--json", "--test", "rows.libsvm").stdout)
    expected = SVCCV(cv=3).fit(X, Y)
    model = load_model("rows.mm")
    assert isinstance(model, SVC)
    assert {name: about[f"cv_{name}"] for name in ("C", "gamma")} == pytest.approx(expected.best_params_)
    assert about["cv_accuracy"] == expected.best_score_
    assert about["cv_standard_error"] == expected.cv_results_["standard_error"][expected.best_index_]
    assert (about["cv_folds"], about["cv_cells"], about["cv_left_early"]) == (3, 50, 0)
    assert about["test_error"] == pytest.approx(1 - expected.score(X, Y))
    told = json.loads(CliRunner().invoke(app, ["info", "rows.mm", "--json"]).stdout)
    assert told == {name: value for name, value in about.items() if name != "model"}
    assert "chosen" in CliRunner().invoke(app, ["info", "rows.mm"]).stdout


@pytest.mark.parametrize(("scale", "edge"), [(1, None), (1e-2, "largest"), (1e-5, "smallest")])
def test_a_chosen_value_at_the_edge_of_the_grid(run, tmp_path, scale, edge):
    write_libsvm(tmp_path / "rows.libsvm", scale * X, Y)
    text = run("--cv", 3).stdout
    assert CliRunner().invoke(app, ["info", "rows.mm"]).stdout.count("at the edge") == text.count("at the edge")
    if edge is None:
        assert "at the edge" not in text
    else:
        assert re.search(rf"at the edge +C is the {edge} value tried.*: scale the features, or .*LinearSVCCV\(Cs", text)
    assert json.loads(run("--cv", 3, "--json").stdout).get("cv_C_edge") == edge


def test_which_parameters_are_at_an_edge():
    searched = SVCCV(Cs=[1.0], gammas=[1e-6, 1e-5, 10.0], cv=3).fit(X, Y)
    assert edges(searched) == {"cv_gamma_edge": "largest"}  # of a single C there is no edge
    assert "SVCCV(gammas=...)" in _at_the_edge({"gamma": "largest"}, kernel=True)


def test_a_picture_of_the_scores(run):
    run("--cv", 3, "--kernel", "rbf", "--plot", "scores.svg")
    with open("scores.svg", encoding="utf-8") as file:
        assert "<svg" in file.read()


@pytest.mark.parametrize(
    "options",
    [
        ("--C", 1),
        ("--slack", 0.1),
        ("--budget", 1000),
        ("--solver", "sdca"),
        ("--max-iter", 3),
        ("--early-stopping",),
        ("--no-certify",),
        ("--intercept-scaling", 1),
        ("--kernel", "rbf", "--gamma", 1),
        ("--kernel", "rbf", "--multi-class", "ovr"),
    ],
)
def test_options_that_do_not_go_with_it(run, options):
    option = next(word for word in options if str(word).startswith("--") and word != "--kernel")
    error = run("--cv", 3, *options, exits=2).stderr
    assert f"{option} cannot be used with --cv, which chooses C and gamma" in error


def test_folds_that_make_no_sense(run):
    assert "--cv 1: give two folds or more" in run("--cv", 1, exits=2).stderr
    assert "--degree needs --kernel" in run("--cv", 3, "--degree", 2, exits=2).stderr
    assert "n_splits=80" in run("--cv", 80, exits=2).stderr


def test_ctrl_c_keeps_the_best_cell_so_far(run, monkeypatch):
    with ctrl_c_at_look(monkeypatch, 60):
        result = run("--cv", 3, "--n-jobs", 1, "--quiet", exits=130)
    at_once, at_the_end = result.stderr.splitlines()
    C = load_model("rows.mm").C
    assert at_once.startswith("maxmargin: interrupted: the search has ended; fitting the best cell so far, ")
    assert f", C={C:.4g}, on all 90 rows. Ctrl-C again ends this fit too" in at_once
    assert at_the_end == "maxmargin: interrupted: the best model so far was kept and is in rows.mm"


def test_the_progress_over_the_grid(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160)
    monkeypatch.setattr(progress, "Console", lambda **options: console)
    SVCCV(cv=3).set_callbacks(ShowProgress()).fit(X, Y)
    shown = screen.getvalue()
    assert re.search(r"fitting gamma=\S+, C=\S+ on all 90 samples", shown)
    assert "100%" in shown
