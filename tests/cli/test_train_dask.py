"""`maxmargin train --dask`: files that the workers of a cluster open, and the same model as without one."""

import json
import os
import re
import signal
import sys
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cluster_data import cloud
from commands import start_command
from local_clusters import same, start
from typer.testing import CliRunner

from maxmargin import SVC, LinearSVC, LinearSVCCV, load_model
from maxmargin.cli import samples
from maxmargin.cli.app import app
from maxmargin.dask.parts import ClusterParts

FILES = 3
X, Y = cloud(n=2400)


@pytest.fixture(scope="module")
def address():
    """The scheduler of a small cluster."""
    with start(2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The samples as files of three kinds: named columns, arrays, and text with the labels first."""
    path = tmp_path_factory.mktemp("parts")
    for k in range(FILES):
        rows, labels = X[k::FILES], Y[k::FILES]
        columns = {f"f{j}": column for j, column in enumerate(rows.T)}
        pq.write_table(pa.table({"kind": labels, **columns}), path / f"data-{k}.parquet", row_group_size=300)
        np.savez(path / f"arrays-{k}.npz", X=rows, y=labels)
        np.savetxt(path / f"text-{k}.csv", np.column_stack([labels, rows]), delimiter=",")
    return path


def in_order():
    """The samples in the order of the files."""
    order = np.concatenate([np.arange(len(Y))[k::FILES] for k in range(FILES)])
    return X[order], Y[order]


@pytest.fixture
def run(address, folder, tmp_path, monkeypatch):
    """Train in an empty folder on the cluster; it must succeed unless another exit code is expected."""
    monkeypatch.chdir(tmp_path)

    def call(data, *args, exits=0, dask=address):
        where = [] if dask is None else ["--dask", dask]
        command = ["train", *where, str(folder / data), *map(str, args), "--model", "m.mm"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("data-*.parquet", ("--label-column", "kind")),
        ("data-?.parquet", ("--label-column", 0)),
        ("text-*.csv", ("--label-column", "first")),
        ("arrays-*.npz", ()),
    ],
)
def test_a_linear_model_of_many_files(run, data, options):
    text = run(data, *options, "--random-state", 0).stdout
    assert f"{data}: 2,400 rows, 5 features, 12,000 entries stored\n" in text
    assert "2 workers, 3 partitions\n" in text
    assert "of all 2,400 rows" in text
    model = load_model("m.mm")
    assert type(model) is LinearSVC
    expected = LinearSVC(solver="newton", random_state=0).fit(*in_order())
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
    assert hasattr(model, "feature_names_in_") == data.endswith("parquet")


def test_names_in_the_header_of_csv_files(run, tmp_path):
    for k in range(2):
        rows = np.column_stack([X[k::2], Y[k::2]])[:200]
        np.savetxt(tmp_path / f"named-{k}.csv", rows, delimiter=",", header="a,b,c,d,e,kind", comments="")
    run(tmp_path / "named-*.csv")
    assert load_model("m.mm").feature_names_in_.tolist() == ["a", "b", "c", "d", "e"]
    np.savetxt("other.csv", rows, delimiter=",", header="a,c,b,d,e,kind", comments="")
    error = run(tmp_path / "named-0.csv", "--test", "other.csv", exits=2).stderr
    assert "other.csv (without the labels: the last of 6 columns, named 'kind')" in error


def test_files_that_the_shell_has_listed(run, folder):
    text = run("arrays-0.npz", folder / "arrays-1.npz", folder / "arrays-2.npz").stdout
    assert "arrays-0.npz and 2 more: 2,400 rows" in text
    assert "3 partitions" in text


def test_a_kernel(run):
    about = json.loads(run("arrays-*.npz", "--kernel", "rbf", "--gamma", 0.2, "--json").stdout)
    assert about["workers"] == 2
    model = load_model("m.mm")
    assert type(model) is SVC
    Xs, ys = in_order()
    assert about["training_error"] == np.mean(model.predict(Xs) != ys)
    expected = SVC(gamma=0.2).fit(Xs, ys)
    assert np.mean(model.predict(Xs) == expected.predict(Xs)) > 0.99
    told = json.loads(CliRunner().invoke(app, ["info", "m.mm", "--json"]).stdout)
    assert (told["workers"], told["partitions"]) == (2, 3)


def test_a_search(run):
    about = json.loads(run("arrays-*.npz", "--cv", 2, "--random-state", 0, "--json").stdout)
    expected = LinearSVCCV(cv=2, random_state=0).fit(*in_order())
    assert about["cv_folds"] == 2
    assert about["cv_C"] == pytest.approx(expected.C_)
    assert about["cv_C"] == load_model("m.mm").C


def test_rows_to_test_on_are_read_by_this_process(run, folder):
    about = json.loads(run("arrays-*.npz", "--test", folder / "arrays-1.npz", "--json").stdout)
    assert about["test_rows"] == 800
    assert about["test_error"] == np.mean(load_model("m.mm").predict(X[1::FILES]) != Y[1::FILES])
    np.savez("narrow.npz", X=X[:9, :4], y=Y[:9])
    error = run("arrays-*.npz", "--test", "narrow.npz", exits=2).stderr
    assert "narrow.npz has 4 features, but arrays-*.npz has 5" in error


def test_ctrl_c_keeps_the_best_model_so_far(run, monkeypatch):
    monkeypatch.setattr(ClusterParts, "update", pressing_at_third_move(ClusterParts.update))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = run("arrays-*.npz", "--tol", 1e-12, exits=130)
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted: the best model so far was kept and is in m.mm" in result.stderr
    assert load_model("m.mm").stopped_ == "interrupted"


def pressing_at_third_move(update):
    """An `update` of the parts that presses Ctrl-C when Newton's method makes its third step."""
    moves = []

    def pressing(self, method, *args):
        moves.extend([method] * (method == "move"))
        if len(moves) == 3 and method == "move":
            signal.raise_signal(signal.SIGINT)
        return update(self, method, *args)

    return pressing


def test_a_run_goes_on_from_its_checkpoint(run, monkeypatch):
    """A run that is cut off goes on where it was saved, and ends with the bits of one that was not."""
    options = ("arrays-*.npz", "--tol", 1e-8, "--random-state", 0)
    run(*options)
    whole = load_model("m.mm")
    with monkeypatch.context() as patched:
        patched.setattr(ClusterParts, "update", pressing_at_third_move(ClusterParts.update))
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            result = run(*options, "--checkpoint", "run.ckpt", exits=130)
        finally:
            signal.signal(signal.SIGINT, before)
    assert "the same command continues from run.ckpt" in result.stderr
    run(*options, "--checkpoint", "run.ckpt")
    again = load_model("m.mm")
    same(again, whole)
    assert again.n_iter_ == whole.n_iter_


# Training that goes on until its time is up.
ENDLESS = ("--solver", "cocoa", "--tol", "0", "--max-iter", "1000000000", "--max-time", "90", "--no-certify")


@pytest.mark.skipif(sys.platform == "win32", reason="no process groups there")
def test_ctrl_c_of_a_terminal_reaches_all_processes_of_a_local_cluster(folder, tmp_path):
    """The workers get it too, go on, and end with the command; what the command says is all that is printed."""
    data = (folder / "data-*.parquet", "--label-column", "kind")
    command = ("train", "--dask", "local", "--n-jobs", "2", *data, "--model", "m.mm", *ENDLESS)
    with start_command(*command, cwd=tmp_path, start_new_session=True) as process:
        begun = process.stderr.readline()
        assert begun.startswith("maxmargin: started 2 workers on this machine")
        assert ("; dashboard: http://127.0.0.1:" in begun) == (find_spec("bokeh") is not None)
        assert "maxmargin: training for 2 s; " in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.fullmatch(r"maxmargin: interrupted: the best model so far was kept and is in m.mm\n", err)
    assert "2 workers, 3 partitions" in out
    assert load_model(tmp_path / "m.mm").stopped_ == "interrupted"
    assert {path.name for path in tmp_path.iterdir()} == {"m.mm"}


# Errors


def test_an_address_where_nobody_answers(run, monkeypatch):
    monkeypatch.setattr(samples, "SECONDS_TO_CONNECT", 0.2)
    error = run("arrays-*.npz", dask="tcp://127.0.0.1:1", exits=2).stderr
    assert error.startswith("maxmargin: error: --dask tcp://127.0.0.1:1: no scheduler answers there (")
    assert "--dask local" in error
    assert len(error.splitlines()) == 1
    assert "no scheduler answers there" in run("arrays-*.npz", dask="nowhere", exits=2).stderr


def test_without_the_extra(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    error = run("arrays-*.npz", exits=2).stderr
    assert "--dask needs distributed, which is not installed: pip install 'maxmargin[dask]'" in error
    assert len(error.splitlines()) == 1


def test_files_that_are_not_there(run, folder):
    assert "no file matches" in run("nothing-*.npz", exits=2).stderr
    assert "partition 1" in run("arrays-0.npz", folder / "arrays-7.npz", exits=2).stderr


def test_labels_that_are_no_classes(run):
    assert "not classes but numbers" in run("text-*.csv", exits=2).stderr


@pytest.mark.parametrize(
    "options", [("--labels", "y.npy"), ("--header",), ("--absent-chunks", "fill"), ("--n-jobs", 2)]
)
def test_options_of_files_in_this_process(run, options):
    assert f"{options[0]} cannot be used with --dask" in run("arrays-*.npz", *options, exits=2).stderr


def test_several_files_without_a_cluster(run, folder):
    error = run("arrays-0.npz", folder / "arrays-1.npz", dask=None, exits=2).stderr
    assert "2 files were given; to train on several files, use --dask" in error


def test_a_pattern_is_no_name_of_a_model(address, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["train", "--dask", address, "data-*.parquet"])
    assert result.exit_code == 2
    assert "--model FILE" in result.stderr
