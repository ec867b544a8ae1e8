"""`maxmargin report`, from a model file and data to a page."""

import os
import re

import numpy as np
import pandas as pd
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
        (["model.mm", "--data", "other.csv"], "other.csv has the label 7 (the last of 5 columns), which the model"),
        (["model.mm", "--data", "wide.csv"], "but the model was trained on 4"),
        (["model.mm", "--data", "plain.csv"], "no labels"),
        (["ball.mm", "--data", "rows.csv"], "holds a ball"),
        (["model.mm", "--data", "rows.csv", "--out", "rows.csv"], "rows.csv is the data"),
        (["model.mm", "--data", "rows.csv", "--out", "model.mm"], "model.mm is the model"),
        (["model.mm", "--data", "rows.csv", "--out", "no/page.html"], "in an existing folder"),
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


def test_the_page_shows_the_command_that_makes_it_again(run, tmp_path, model):
    X, y = data()
    rows = [",".join([str(label), *map(repr, row)]) for row, label in zip(X.tolist(), y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["kind,a,b,c,d", *rows]) + "\n")
    options = ["--out", "page.html", "--label-column", "kind", "--header"]
    run("report", "model.mm", "--data", "rows.csv", *options)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"maxmargin report model.mm --data rows.csv {' '.join(options)}</code>" in page


def test_the_page_can_go_to_standard_output(run, tmp_path, model):
    rows = write_csv(tmp_path / "rows.csv", *data())
    before = sorted(path.name for path in tmp_path.iterdir())
    result = run("report", "model.mm", "--data", rows.name, "--out", "-")
    assert result.stdout.startswith("<!DOCTYPE html>")
    assert result.stdout.endswith("</html>\n")
    assert re.fullmatch(r"maxmargin: SVC, error .* of 90 samples\n", result.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_the_page_can_go_to_a_pipe(run, tmp_path, model):
    write_csv(tmp_path / "rows.csv", *data())
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)  # a pipe has room for a page
    try:
        run("report", "model.mm", "--data", "rows.csv", "--out", "pipe")
        assert os.read(reader, 1 << 16).endswith(b"</html>\n")
    finally:
        os.close(reader)


def test_the_page_does_not_replace_the_labels(run, tmp_path, model):
    X, y = data()
    np.save(tmp_path / "rows.npy", X)
    np.savetxt(tmp_path / "labels.txt", y, "%d")
    before = (tmp_path / "labels.txt").read_bytes()
    result = run("report", "model.mm", "--data", "rows.npy", "--labels", "labels.txt", "--out", "labels.txt", exits=2)
    assert "labels.txt is the data" in result.stderr
    assert (tmp_path / "labels.txt").read_bytes() == before


def test_the_page_does_not_replace_the_store_of_a_matrix(run, tmp_path, model):
    h5py = pytest.importorskip("h5py")
    X, y = data()
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["train/X"], file["train/y"] = X, y
    before = (tmp_path / "data.h5").read_bytes()
    result = run("report", "model.mm", "--data", "data.h5::/train", "--out", "data.h5", exits=2)
    assert "data.h5 is the data" in result.stderr
    assert (tmp_path / "data.h5").read_bytes() == before


@pytest.mark.parametrize("command", [("report", "model.mm", "--data"), ("predict", "model.mm")])
def test_columns_in_another_order_are_refused(run, tmp_path, command):
    X, y = data()
    save_model(LinearSVC().fit(pd.DataFrame(X, columns=[*"abcd"]), y), tmp_path / "model.mm")
    write_csv(tmp_path / "rows.csv", X[:, ::-1], y, header="d,c,b,a,kind")
    result = run(*command, "rows.csv", exits=2)
    assert "in another order: feature 0 is 'd', expected 'a'" in result.stderr
    write_csv(tmp_path / "rows.csv", X, y, header="w,b,c,z,kind")
    result = run(*command, "rows.csv", exits=2)
    assert result.stderr == (
        "maxmargin: error: rows.csv (without the labels: the last of 5 columns, named 'kind') does not have the "
        "columns that the model is trained on, but the columns 'w', 'z' instead of 'a', 'd'. Give the columns of the "
        "training data under the same names and in the same order\n"
    )
    write_csv(tmp_path / "rows.csv", X, y)  # columns without names count by their positions
    assert "warning" not in run(*command, "rows.csv").stderr


@pytest.mark.parametrize("options", [(), ("--cv", 2), ("--kernel", "rbf"), ("--kernel", "rbf", "--cv", 2)])
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_names_of_columns_reach_the_model_and_the_report(run, tmp_path, options, suffix):
    X, y = data()
    write_csv(tmp_path / "rows.csv", X, y, header="height,width,depth,weight,kind")
    run("convert", "rows.csv", "rows.parquet")
    result = run("train", f"rows.{suffix}", *options, "--test", "rows.csv", "--model", "m.mm")
    assert result.stderr == ""
    assert load_model("m.mm").feature_names_in_.tolist() == ["height", "width", "depth", "weight"]
    assert "warning" not in run("predict", "m.mm", "rows.csv").stderr
    write_csv(tmp_path / "rows.csv", X, y, header="width,height,depth,weight,kind")
    for command in (("predict", "m.mm", "rows.csv"), ("train", f"rows.{suffix}", "--test", "rows.csv")):
        if suffix == "parquet" or command[0] == "predict":
            error = run(*command, "--model" if command[0] == "train" else "--output", "x", exits=2).stderr
            assert "in another order: feature 0 is 'width', expected 'height'" in error
    write_csv(tmp_path / "rows.csv", X, y)  # without names, the report has those of the model
    run("report", "m.mm", "--data", "rows.csv")
    page = (tmp_path / "m.html").read_text(encoding="utf-8")
    if not options:
        assert ">height</th>" in page


def test_labels_that_end_like_versions_keep_their_end(run, tmp_path):
    X, y = data(labels=("v1.0", "v2.0", "v2"))
    save_model(SVC().fit(X, y), tmp_path / "model.mm")
    write_csv(tmp_path / "rows.csv", X, y)
    assert set(run("predict", "model.mm", "rows.csv").stdout.split()) == {"v1.0", "v2.0", "v2"}
    run("report", "model.mm", "--data", "rows.csv")
    expected = ModelReport.from_estimator(
        load_model("model.mm"), X, y, data_name="rows.csv", commands=["maxmargin report model.mm --data rows.csv"]
    )
    assert (tmp_path / "model.html").read_text(encoding="utf-8") == expected.html


@pytest.mark.parametrize("label_column", ["nope", "9"])
def test_a_wrong_label_column_is_named(run, tmp_path, model, label_column):
    X, y = data()
    write_csv(tmp_path / "rows.csv", X, y, header="a,b,c,d,kind")
    result = run("report", "model.mm", "--data", "rows.csv", "--label-column", label_column, exits=2)
    assert re.search(rf"rows.csv has no column .*{label_column}.*Choose another label column", result.stderr)
