"""`maxmargin convert`, and commands that read stores."""

import json
import sys

import numpy as np
import pytest
import zarr
from typer.testing import CliRunner

from maxmargin import load_model
from maxmargin.cli.app import app
from maxmargin.cli.progress import RowProgress
from maxmargin.data import load_table, read_table, write_libsvm
from maxmargin.data.stores import convert as stores_convert

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 5)).round(2)
y = np.where(X[:, 0] > 0, 1.0, -1.0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_libsvm("rows.libsvm", X, y)
    return tmp_path


def run(*words, code=0, **options):
    result = CliRunner().invoke(app, list(map(str, words)), **options)
    assert result.exit_code == code, result.output
    return result


def test_a_file_becomes_a_store(folder):
    result = run("convert", "rows.libsvm", "rows.zarr", "--dense", "--chunks", "10x5", "--also-by-column")
    assert result.output == ""
    group = zarr.open_group("rows.zarr", mode="r")
    assert group["X"].chunks == (10, 5)
    assert np.array_equal(group["X_by_column"][:], X)
    assert read_table("rows.zarr")[1].tolist() == y.tolist()


def test_a_pipe_becomes_a_store(folder):
    run("convert", "-", "rows.h5", input=(folder / "rows.libsvm").read_bytes())
    assert read_table("rows.h5")[0].shape == X.shape


def test_what_is_there_is_kept(folder):
    run("convert", "rows.libsvm", "rows.parquet")
    result = run("convert", "rows.libsvm", "rows.parquet", code=2)
    assert result.output == (
        "maxmargin: error: rows.parquet: it is there already; give another name, or force=True (--force)\n"
    )
    run("convert", "rows.libsvm", "rows.parquet", "--force")


def test_all_columns_may_be_features(folder):
    run("convert", "rows.libsvm", "rows.parquet")
    run("convert", "rows.parquet", "all.npy", "--no-labels")
    assert np.array_equal(np.load("all.npy"), np.column_stack([X, y]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rows.txt"], "its name must end in one of .zarr, .h5"),
        (["rows.zarr", "--chunks", "10"], "--chunks 10: give the numbers of rows and columns as ROWSxCOLS"),
        (["rows.zarr", "--chunks", "10x5"], "chunks are for dense arrays; give sparse=False (--dense)"),
        (["no/rows.zarr"], "the folder does not exist"),
    ],
)
def test_errors_are_one_line(words, message, folder):
    output = run("convert", "rows.libsvm", *words, code=2).output
    assert message in output
    assert output.count("\n") == 1


def test_a_missing_chunk_may_be_meant(folder):
    run("convert", "rows.libsvm", "rows.zarr", "--dense", "--chunks", "10x5")
    (folder / "rows.zarr" / "X" / "c" / "1" / "0").unlink()
    assert "the chunk c/1/0 is not in the store" in run("convert", "rows.zarr", "rows.npy", code=2).output
    run("convert", "rows.zarr", "rows.npy", "--absent-chunks", "fill")
    assert not np.load("rows.npy")[10:20, :-1].any()
    assert "absent_chunks is 'what'" in run("convert", "rows.zarr", "a.npy", "--absent-chunks", "what", code=2).output


def test_labels_from_elsewhere(folder):
    np.save("X.npy", X)
    np.save("y.npy", y)
    run("convert", "X.npy", "rows.h5", "--labels", "y.npy")
    table = load_table("rows.h5")
    assert table.X.shape == (40, 5)
    assert table.y.tolist() == y.tolist()


def test_progress_in_a_log(capsys):
    with RowProgress("converting", seconds=0) as progress:
        progress.update(1000, 5000)
    with RowProgress("converting", seconds=0, shown=False) as progress:
        progress.update(1000, 5000)
    assert capsys.readouterr().err == "maxmargin: converting: 1,000 of 5,000 rows\n"


# Commands that read stores


@pytest.mark.parametrize("name", ["rows.zarr", "rows.h5", "rows.parquet", "rows.arrow"])
@pytest.mark.parametrize("options", [[], ["--kernel", "rbf"], ["--slack", "0.05", "--budget", "300"]], ids=str)
def test_a_store_gives_the_model_of_the_file(name, options, folder):
    run("convert", "rows.libsvm", name, *(["--dense"] if name in ("rows.zarr", "rows.h5") else []))
    run("convert", "rows.libsvm", "rows.npy")
    notes = {}
    for data in (name, "rows.npy"):
        trained = run("train", data, "--model", f"{data}.mm", "--random-state", 0, "--json", *options)
        notes[data] = json.loads(trained.stdout)
        assert notes[data]["rows"] == 40
    assert notes[name]["training_error"] == notes["rows.npy"]["training_error"]
    predicted = [run("predict", f"{data}.mm", data).stdout for data in (name, "rows.npy")]
    assert predicted[0] == predicted[1]


def test_the_cache_of_a_store(folder):
    run("convert", "rows.libsvm", "rows.zarr", "--dense")
    run("train", "rows.zarr", "--cache-size", 0.001, "--model", "a.mm", "--quiet")
    output = run("train", "rows.zarr", "--cache-size", 0.0001, "--model", "a.mm", code=2).output
    assert "a row takes 40 bytes, but a block may take at most 1/8 of cache_size=100; give cache_size=320" in output
    assert "--cache-size needs --kernel" in run("train", "rows.libsvm", "--cache-size", 1, code=2).output


def test_labels_of_a_store_elsewhere(folder):
    np.save("y.npy", y)
    zarr.create_array("X.zarr", data=X, chunks=(10, 5))
    run("train", "X.zarr", "--labels", "y.npy", "--model", "a.mm", "--quiet")
    result = run("predict", "a.mm", "X.zarr", "--labels", "y.npy")
    assert "of the 40 labels in X.zarr are predicted wrongly" in result.stderr
    assert "X.zarr: 5 features and no labels" in run("train", "X.zarr", code=2).output


def test_a_store_as_test_data(folder):
    run("convert", "rows.libsvm", "rows.zarr")
    about = json.loads(run("train", "rows.libsvm", "--test", "rows.zarr", "--model", "a.mm", "--json").stdout)
    assert about["test_error"] == about["training_error"]


def test_a_ball_of_a_store(folder):
    run("convert", "rows.libsvm", "rows.zarr")
    run("convert", "rows.libsvm", "rows.npy")
    options = "--tol", "1e-6", "--quiet", "--model"
    run("ball", "rows.zarr", "--cache-size", 1, *options, "store.mm")
    run("ball", "rows.npy", "--label-column", "last", *options, "file.mm")
    assert load_model("store.mm").radius_ == pytest.approx(load_model("file.mm").radius_)
    assert run("predict", "store.mm", "rows.zarr").output.split() == ["1"] * 40
    run("ball", "rows.zarr", "--kernel", "rbf", *options, "kernel.mm")
    assert "--gamma" in run("ball", "rows.zarr", "--gamma", 1, code=2).output


def test_without_the_package_the_extra_is_named(folder, monkeypatch):
    run("convert", "rows.libsvm", "rows.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    error = run("train", "rows.h5", code=2).output
    assert "a store of this kind (hdf5) needs h5py, which is not installed: pip install 'maxmargin[stores]'" in error


@pytest.mark.parametrize(
    ("name", "package"), [("a.zarr", "zarr"), ("a.h5", "h5py"), ("a.parquet", "pyarrow"), ("a.arrow", "pyarrow")]
)
def test_writing_without_the_package_is_one_line(name, package, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(stores_convert, "open_rows", None)  # the source is not read
    error = run("convert", "rows.libsvm", name, code=2).output
    assert error == (
        f"maxmargin: error: writing {name} needs {package}, which is not installed: pip install 'maxmargin[stores]', "
        "or from a clone pip install '.[stores]'\n"
    )
    assert not (folder / name).exists()
