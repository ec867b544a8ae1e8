"""`maxmargin report`, from a model file and data to a page."""

import numpy as np
import pytest
from typer.testing import CliRunner

from maxmargin import SVC, EnclosingBall, LinearSVC, load_model, save_model
from maxmargin.cli.app import app
from maxmargin.display import ModelReport


def data(seed=0, labels=(1, 2, 3)):
    rng = np.random.default_rng(seed)
    k = np.arange(90) % len(labels)
    return rng.normal(size=(90, 4)) + k[:, None], np.array(labels)[k]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command in an empty folder; it must succeed unless another exit code is expected."""
    monkeypatch.chdir(tmp_path)

    def call(*args, exits=0):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


def write_csv(path, X, y, header=""):
    rows = [",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y, strict=True)]
    path.write_text("\n".join([*([header] if header else []), *rows]) + "\n")
    return path


@pytest.fixture
def model(tmp_path):
    save_model(SVC().fit(*data()), tmp_path / "model.mm")
    return tmp_path / "model.mm"


def test_the_page_is_that_of_the_model(run, tmp_path, model):
    X, y = data(seed=1)
    rows = write_csv(tmp_path / "new rows.csv", X, y)
    made = run("report", "model.mm", "--data", rows.name)
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    command = "maxmargin report model.mm --data 'new rows.csv'"
    expected = ModelReport.from_estimator(load_model(model), X, y, data_name=rows.name, commands=[command])
    assert page == expected.html
    assert made.stdout == f"model.html: {expected.summary}\n"
    error = np.mean(load_model(model).predict(X) != y)
    assert f"{100 * error:.3g} % of 90 samples" in made.stdout


def test_the_name_of_the_page_can_be_given(run, tmp_path, model):
    rows = write_csv(tmp_path / "rows.csv", *data())
    run("report", model, "--data", rows, "--out", "here.html")
    before = (tmp_path / "here.html").read_bytes()
    run("report", model, "--data", rows, "--out", "here.html")
    assert (tmp_path / "here.html").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.html", "model.mm", "rows.csv"]


def test_labels_are_compared_as_text(run, tmp_path):
    X, y = data(labels=("1", "2", "10"))
    save_model(LinearSVC().fit(X, y), tmp_path / "model.mm")
    write_csv(tmp_path / "rows.csv", X, y)  # reads them as numbers
    run("report", "model.mm", "--data", "rows.csv")
    expected = ModelReport.from_estimator(
        load_model("model.mm"), X, y, data_name="rows.csv", commands=["maxmargin report model.mm --data rows.csv"]
    )
    assert (tmp_path / "model.html").read_text(encoding="utf-8") == expected.html


def test_features_have_the_names_of_the_columns(run, tmp_path):
    X, y = data()
    save_model(LinearSVC().fit(X, y), tmp_path / "model.mm")
    write_csv(tmp_path / "rows.csv", X, y, header="height,width,<depth>,weight,kind")
    run("report", "model.mm", "--data", "rows.csv")
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert ">&lt;depth&gt;</th>" in page
    assert ">height</th>" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.mm", "--data", "rows.csv"], "none.mm: No such file or directory"),
        (["model.mm", "--data", "none.csv"], "none.csv: No such file or directory"),
        (["model.mm", "--data", "other.csv"], "other.csv has the label 7, which the model does not know"),
        (["model.mm", "--data", "wide.csv"], "but the model was trained on 4"),
        (["model.mm", "--data", "plain.csv"], "no labels"),
        (["ball.mm", "--data", "rows.csv"], "holds a ball"),
        (["model.mm", "--data", "rows.csv", "--out", "rows.csv"], "rows.csv is the data"),
        (["model.mm", "--data", "rows.csv", "--out", "model.mm"], "model.mm is the model"),
        (["model.mm", "--data", "rows.csv", "--out", "no/page.html"], "in a folder that exists"),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(run, tmp_path, model, arguments, message):
    X, y = data()
    write_csv(tmp_path / "rows.csv", X, y)
    write_csv(tmp_path / "other.csv", X, np.where(y == 1, 7, y))
    write_csv(tmp_path / "wide.csv", np.hstack([X, X]), y)
    np.savetxt(tmp_path / "plain.csv", X, delimiter=",")
    save_model(EnclosingBall().fit(X), tmp_path / "ball.mm")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run("report", *arguments, exits=2)
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
