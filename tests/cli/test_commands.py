"""The command, from files to files."""

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import maxmargin
from maxmargin import SVC, LinearSVC, __version__, load_model
from maxmargin.cli.app import COMMANDS, app
from maxmargin.cli.summary import PURPOSES
from maxmargin.data import read_libsvm, read_table, write_libsvm
from maxmargin.solvers import SOLVERS

FORMATS = ["rows.libsvm", "rows.libsvm.gz", "rows.txt", "rows.csv", "rows.csv.gz", "rows.npy", "rows.npz", "sparse.npz"]
FAST = ["--slack", "0.05", "--solver", "simba", "--max-iter", "1", "--random-state", "0"]


def data(n=80, d=6, seed=0, labels=(-1, 1)):
    rng = np.random.default_rng(seed)
    k = np.arange(n) % len(labels)
    return rng.normal(size=(n, d)) + 2 * k[:, None], np.array(labels)[k]


def write(path, X, y):
    """Write rows and labels as the name of the file says."""
    table = "".join(",".join([*map(repr, row), str(label)]) + "\n" for row, label in zip(X.tolist(), y, strict=True))
    match path.name:
        case "rows.csv":
            path.write_text(table)
        case "rows.csv.gz":
            path.write_bytes(gzip.compress(table.encode()))
        case "rows.npy":
            np.save(path, np.column_stack([X, y]))
        case "rows.npz":
            np.savez(path, X=X, y=y)
        case "sparse.npz":
            X = sp.csr_array(X)
            np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, format=b"csr", y=y)
        case _:
            write_libsvm(path, X, y)
    return path


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Call the command in an empty folder; it must succeed unless another exit code is expected."""
    monkeypatch.chdir(tmp_path)

    def call(*args, exits=0):
        result = CliRunner().invoke(app, [str(arg) for arg in args])
        assert result.exit_code == exits, (result.output, result.exception)
        return result

    return call


@pytest.fixture
def rows(tmp_path):
    return write(tmp_path / "rows.libsvm", *data())


@pytest.fixture
def model(run, rows):
    run("train", rows, *FAST)
    return rows.with_name("rows.mm")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_model(run, tmp_path, name):
    X, y = data()
    run("train", write(tmp_path / name, X, y), *FAST)
    path = tmp_path / f"{name.partition('.')[0]}.mm"
    found = load_model(path)
    expected = LinearSVC(slack=0.05, solver="simba", max_iter=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)
    result = run("predict", path, tmp_path / name)
    assert result.stdout.split() == [str(label) for label in expected.predict(X)]
    assert re.search(rf"\d+\.\d\d% of the 80 labels in {name} are predicted wrongly", result.stderr)


def test_the_summary_says_what_a_person_wants_to_know(run, rows):
    test = write(rows.with_name("more.libsvm"), *data(seed=1))
    text = run("train", rows, "--slack", "0.05", "--test", test, "--budget", "400").stdout
    assert "rows.libsvm: 80 rows, 6 features, 480 entries stored" in text
    assert re.search(r"read to learn +\d+ entries, \d+\.\d% of what is stored", text)
    assert "margin" in text
    assert "slack 0.05" in text
    assert re.search(r"certificate +.*best possible at this slack", text)
    assert re.search(r"test error +\d+\.\d\d% of 80 rows of more.libsvm", text)
    assert re.search(r"stopped +the budget was spent", text)
    assert re.search(r"model +rows.mm", text)


def test_the_summary_warns_of_features_of_very_different_scales(run, tmp_path):
    X, y = data(d=3)
    np.savetxt(tmp_path / "alike.csv", np.column_stack([X, y]), delimiter=",")
    np.savetxt(tmp_path / "unlike.csv", np.column_stack([X * [1e-4, 1, 1e3], np.zeros(len(y)), y]), delimiter=",")
    assert "scale them first" not in run("train", "alike.csv").stdout
    text = run("train", "unlike.csv").stdout
    assert re.search(r"scales +the standard deviations of the features differ by a factor of \de\+07", text)


def test_json_is_one_object_and_nothing_else(run, rows):
    result = run("train", rows, *FAST, "--test", rows, "--json", "--model", "other.mm")
    about = json.loads(result.stdout)
    assert result.stderr == ""  # so short a fit has no progress to show
    loaded = load_model("other.mm")
    [problem] = about["problems"]
    assert about["model"] == "other.mm"
    assert (about["rows"], about["n_features_in"], about["stored"]) == (80, 6, 480)
    assert about["entries_read"] == loaded.entries_read_
    assert problem["margin"] == loaded.margin_
    assert problem["certificate"]["sentence"] == str(loaded.certificate_)
    assert problem["stopped"] == "max_iter"
    assert 0 <= about["test_error"] <= 1
    told = json.loads(run("info", "other.mm", "--json").stdout)
    assert told == {name: value for name, value in about.items() if name != "model"}


def test_what_is_not_known_is_null(run, rows):
    about = json.loads(run("train", rows, *FAST, "--no-certify", "--json").stdout)
    assert about["problems"][0]["margin"] is None
    assert about["problems"][0]["certificate"]["relative_gap"] is None


def test_quiet_is_quiet(run, rows):
    result = run("train", rows, *FAST, "--quiet")
    assert result.output == ""
    early = ("--solver", "sdca", "--C", "1000", "--max-time", "1e-9", "--quiet")
    result = run("train", rows, *early)
    assert re.fullmatch(r"maxmargin: warning: (not certified: |loose: the objective may be).*\n", result.output)
    assert run("train", rows, *early, "--no-certify").output == ""  # as was asked for


def test_options_reach_the_model(run, rows):
    options = ["--C", "0.5", "--solver", "simba", "--budget", "10000", "--max-time", "60", "--max-iter", "2"]
    options += ["--tol", "0.01", "--early-stopping", "--no-intercept", "--class-weight", "balanced"]
    run("train", rows, *options, "--random-state", "3", "--model", "m.mm")
    expected = LinearSVC(
        C=0.5,
        solver="simba",
        budget=10000,
        max_time=60.0,
        max_iter=2,
        tol=0.01,
        early_stopping=True,
        fit_intercept=False,
        class_weight="balanced",
        random_state=3,
    )
    assert load_model("m.mm").get_params() == expected.get_params()


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_can_be_named(run, rows, solver):
    run("train", rows, "--solver", solver, "--max-iter", "20")
    assert load_model("rows.mm").solver == load_model("rows.mm").solver_ == solver


def test_the_form_with_C(run, rows):
    options = ["--solver", "newton", "--loss", "hinge", "--intercept-scaling", "2", "--n-jobs", "2"]
    text = run("train", rows, *options, "--plot", "run.png").stdout
    assert re.search(r"certificate +the objective is within .* at this C", text)
    assert re.search(r"stopped +the gap reached tol", text)
    assert re.search(r"work +\d+ iterations of newton, loss hinge in", text)
    model = load_model("rows.mm")
    assert (model.loss, model.intercept_scaling, model.n_jobs) == ("hinge", 2.0, 2)
    assert "newton, loss hinge" in run("info", "rows.mm").stdout


KERNEL = ["--kernel", "poly", "--gamma", "0.5", "--degree", "2", "--coef0", "1", "--cache-size", "10", "--C", "2"]


def test_a_kernel_machine_from_end_to_end(run, rows):
    text = run("train", rows, *KERNEL, "--test", rows, "--plot", "run.png", "--random-state", "0").stdout
    assert re.search(r"kernel +poly, gamma 0.5, coef0 1, degree 2", text)
    assert re.search(r"computed +[\d,]+ kernel evaluations to learn", text)
    assert re.search(r"certificate +the objective is within .* at this C", text)
    assert re.search(r"support +\d+ vectors of 80 rows", text)
    assert rows.with_name("run.png").read_bytes().startswith(b"\x89PNG")
    model = load_model("rows.mm")
    expected = SVC(
        C=2.0, kernel="poly", gamma=0.5, degree=2, coef0=1.0, cache_size=10.0, certify="checks", random_state=0
    )
    assert model.get_params() == expected.get_params()
    X, y = read_libsvm(rows)
    assert expected.fit(X, y).decision_function(X).tolist() == model.decision_function(X).tolist()
    result = run("predict", "rows.mm", rows, "--json")
    told = json.loads(result.stdout)
    assert told["labels"] == model.predict(X).tolist()
    assert told["decisions"] == model.decision_function(X).tolist()
    about = run("info", "rows.mm").stdout
    assert "kernel         poly" in about
    assert json.loads(run("info", "rows.mm", "--json").stdout)["kernel_evaluations"] == model.kernel_evaluations_


def test_a_kernel_machine_of_many_classes(run, tmp_path):
    X, y = data(labels=(1, 2, 3, 4, 5, 6))
    write(tmp_path / "rows.libsvm", X, y)
    text = run("train", "rows.libsvm", "--kernel", "rbf").stdout
    assert re.search(r"models +15, one for each two classes", text)
    assert re.search(r"certificate +all 15 within .* %.*; the loosest: \d against \d", text)
    predicted = run("predict", "rows.mm", "rows.libsvm").stdout.split()
    assert predicted == [str(label).removesuffix(".0") for label in load_model("rows.mm").predict(X).tolist()]
    assert len(json.loads(run("info", "rows.mm", "--json").stdout)["problems"][0]["class"]) == 2
    text = run("train", "rows.libsvm", "--kernel", "rbf", "--multi-class", "ovr").stdout
    assert re.search(r"models +6, one for each class against the rest", text)


def test_the_plot_is_drawn(run, rows):
    run("train", rows, *FAST, "--plot", "run.png")
    assert rows.with_name("run.png").read_bytes().startswith(b"\x89PNG")


def test_labels_of_many_classes_in_a_named_column(run, tmp_path):
    X, y = data(labels=("no", "yes", "maybe so"))
    lines = [f"{label},{','.join(map(str, row))}\n" for row, label in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("kind,a,b,c,d,e,f\n" + "".join(lines))
    text = run("train", "rows.csv", *FAST, "--label-column", "kind").stdout
    assert re.search(r"certificate +.*3, (maybe so|no|yes) against the rest", text)
    result = run("predict", "rows.mm", "rows.csv", "--label-column", "0")
    expected = load_model("rows.mm").predict(pd.DataFrame(X, columns=[*"abcdef"]))
    assert result.stdout.splitlines() == expected.tolist()
    decisions = run("predict", "rows.mm", "rows.csv", "--label-column", "kind", "--decision").stdout.splitlines()
    assert [len(line.split()) for line in decisions] == [3] * len(y)


def test_decisions_are_exact(run, rows, model):
    text = run("predict", model, rows, "--decision").stdout
    X, _ = read_table(rows)
    assert [float(line) for line in text.splitlines()] == load_model(model).decision_function(X).tolist()


def test_predictions_as_json_or_in_a_file(run, rows, model):
    about = json.loads(run("predict", model, rows, "--json").stdout)
    assert about.keys() == {"labels", "decisions", "error"}
    assert set(about["labels"]) <= {-1.0, 1.0}
    assert run("predict", model, rows, "--output", "labels.txt").stdout == ""
    assert rows.with_name("labels.txt").read_text() == run("predict", model, rows).stdout


@pytest.mark.parametrize("column", ["first", "last"])
@pytest.mark.parametrize("suffix", ["csv", "npy"])
def test_a_table_without_labels(run, model, tmp_path, column, suffix):
    X, _ = data(seed=2)
    if suffix == "csv":
        np.savetxt(tmp_path / "new.csv", X, delimiter=",", fmt="%.17g")
    else:
        np.save(tmp_path / "new.npy", X)
    result = run("predict", model, f"new.{suffix}", "--label-column", column)
    assert result.stdout.split() == [f"{label:.0f}" for label in load_model(model).predict(X)]
    assert result.stderr == ""


def test_labels_that_the_model_does_not_know_are_named(run, model, tmp_path):
    X, y = data(seed=2)
    result = run("predict", model, write(tmp_path / "new.libsvm", X, np.zeros_like(y)))
    assert len(result.stdout.split()) == 80
    assert result.stderr == (
        "maxmargin: warning: 80 of the 80 labels in new.libsvm are unknown to the model: '0'. Its classes are '-1', "
        "'1'; no error is measured.\n"
    )
    y[:3] = 7, 8, 7
    result = run("predict", model, write(tmp_path / "rows.csv", X, y))
    measured, warning = result.stderr.splitlines()
    error = np.mean(load_model(model).predict(X) != y)
    assert f"{error:.2%} of the 80 labels" in measured
    assert "3 of the 80 labels in rows.csv (the last of 7 columns) are unknown to the model: '7', '8'." in warning
    assert "the unknown labels count as errors. If the labels are in another column, say" in warning


def test_rows_without_a_label_are_predicted_and_not_counted(run, model, tmp_path):
    X, y = data(seed=2)
    write(tmp_path / "rows.csv", X, ["", *y[1:]])
    result = run("predict", model, "rows.csv")
    assert len(result.stdout.split()) == 80
    error = np.mean(load_model(model).predict(X)[1:] != y[1:])
    assert result.stderr == f"maxmargin: {error:.2%} of the 79 labels in rows.csv are predicted wrongly\n"


def test_a_libsvm_file_with_fewer_columns_is_padded(run, model, tmp_path):
    X, y = data(seed=2)
    X[:, 4:] = 0
    write(tmp_path / "short.libsvm", X, y)
    assert read_table(tmp_path / "short.libsvm")[0].shape[1] == 4
    result = run("predict", model, "short.libsvm")
    assert result.stdout.split() == [f"{label:.0f}" for label in load_model(model).predict(X)]


def test_info_shows_what_is_in_the_file(run, model):
    text = run("info", model).stdout
    for part in ("rows.libsvm: 80 rows", "slack=0.05", "certificate", f"maxmargin {__version__}", "-1, 1 (float64)"):
        assert part in text


def test_version(run):
    assert run("--version").stdout == f"maxmargin {__version__}\n"


def test_whether_the_first_line_holds_names_can_be_said(run, tmp_path):
    (tmp_path / "rows.csv").write_text("0,1,kind\n5,6,1\n7,8,2\n")
    for option, rows, classes in (("--header", 2, [1, 2]), ("--no-header", 3, ["1", "2", "kind"])):
        about = json.loads(run("train", "rows.csv", option, "--json", "--quiet").stdout)
        assert about["rows"] == rows
        assert about["classes"]["values"] == classes
    assert run("predict", "rows.mm", "rows.csv", "--no-header").stdout.split() == ["kind", "1", "2"]


@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf"]])
def test_the_training_error_is_that_of_the_model(run, tmp_path, monkeypatch, kernel):
    X, y = data(n=300, labels=("no", "yes"))
    y[::7] = "yes"
    write(tmp_path / "rows.csv", X, y)
    text = run("train", "rows.csv", "--random-state", "0", *kernel).stdout
    wrong = (load_model("rows.mm").predict(X) != y).mean()
    assert wrong > 0
    assert f"training error {wrong:.2%} of all 300 rows" in text
    assert "300 rows, 6 features, 1,800 entries stored; labels: the last of 7 columns" in text
    # Where all rows would cost too much, some of them are predicted, evenly spread.
    monkeypatch.setattr("maxmargin.cli.samples.TRAINING_ERROR_MULTIPLICATIONS", 100)
    monkeypatch.setattr("maxmargin.cli.samples.TRAINING_ERROR_ROWS", 30)
    about = json.loads(run("train", "rows.csv", "--random-state", "0", *kernel, "--json", "--quiet").stdout)
    some = np.linspace(0, 299, 30).astype(int)
    assert about["training_error_rows"] == 30
    assert about["training_error"] == (load_model("rows.mm").predict(X[some]) != y[some]).mean()
    assert "of 30 of the 300 rows" in run("info", "rows.mm").stdout


def test_what_was_read_is_said_in_words(run, rows):
    run("train", rows, "--slack", "0.05", "--budget", "400", "--early-stopping")
    [line] = [line for line in run("info", "rows.mm").stdout.splitlines() if line.startswith("reads")]
    for part in ("to learn", "to find the norms of the rows", "to predict the held-out rows", "to certify"):
        assert part in line
    assert "learning" not in line


def test_every_purpose_in_the_ledger_has_words():
    purposes = set()
    for path in Path(maxmargin.__file__).parent.rglob("*.py"):
        purposes |= set(re.findall(r'ledger\.(?:on|book)\("([^"]+)"', path.read_text()))
    assert purposes
    assert purposes <= PURPOSES.keys()


def test_the_list_of_commands_is_that_of_their_modules(run):
    text = run("--help").stdout
    for name, line in COMMANDS.items():
        assert line.split(":")[0][:40] in " ".join(text.split())
        assert f"{name} [OPTIONS]" in run(name, "--help").stdout
    folder = Path(maxmargin.__file__).parent / "cli"
    commands = {path.stem for path in folder.glob("*.py") if "@one_line_errors" in path.read_text()}
    assert commands == COMMANDS.keys()


# Errors


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ("train none.libsvm", "none.libsvm: No such file"),
        ("train .", "Is a directory|Permission denied"),
        ("train rows.libsvm --C 1 --slack 0.1", "give one"),
        ("train rows.libsvm --C -1", "'C' parameter"),
        ("train rows.libsvm --slack 1000", "slack=1000 is outside"),
        ("train rows.libsvm --budget 3", "budget of 3 entries is too small"),
        ("train rows.libsvm --solver quick", "'quick' is not one of auto, .*simba"),
        ("train rows.libsvm --loss logistic", "'logistic' is not one of hinge, squared_hinge"),
        ("train rows.libsvm --slack 0.1 --solver pegasos", "'pegasos' solves the form with C"),
        ("train rows.libsvm --class-weight heavy", "'heavy' is not one of balanced"),
        ("train rows.libsvm --max-iter many", "--max-iter"),
        ("train rows.libsvm --gamma 0.5", "--gamma needs --kernel"),
        ("train rows.libsvm --kernel gauss", "'gauss' is not one of .*rbf"),
        ("train rows.libsvm --kernel precomputed", "'precomputed' is not one of"),
        ("train rows.libsvm --kernel rbf --gamma wide", "'gamma' parameter of SVC"),
        ("train rows.libsvm --kernel rbf --loss squared_hinge", "--loss cannot be used with --kernel"),
        ("train rows.libsvm --kernel rbf --solver newton", "'newton' is a solver of LinearSVC"),
        ("train rows.libsvm --solver decomposition", "'decomposition' is a solver of SVC"),
        ("train rows.libsvm --kernel rbf --cache-size 0.0001", "give at least"),
        ("train rows.libsvm --model nowhere/m.mm", "existing folder"),
        ("train rows.libsvm --model rows.libsvm", "is the data"),
        ("train rows.libsvm --plot run.xyz", "must end in one of"),
        ("train rows.libsvm --plot run.png --no-certify", "nothing to draw"),
        ("train rows.libsvm --test none.libsvm", "none.libsvm: No such file"),
        (
            "train rows.libsvm --test narrow.csv",
            r"1 feature \(without the labels: the last of 2 columns\), but rows.libsvm has 6",
        ),
        ("train one.libsvm", "one.libsvm: all labels are 1; expected at least two classes"),
        ("train same.csv", r"same.csv: all labels \(the last of 2 columns\) are 1;.* --label-column"),
        (
            "train heights.csv",
            r"labels \(the last of 2 columns\) are not classes but .* 1.81;.*-column",
        ),
        ("train unlabelled.csv", "unlabelled.csv, line 2, column 2: the label is missing"),
        ("train unlabelled.npy", r"the label of row 1 \(counted from 0\) .* is missing \(nan\)"),
        ("train words.csv", "line 1, column 1: the cell holds 'yes'.*--label-column first"),
        ("train names.csv", r"line 1: the label is 'kind', but .* next row is '1': .* \(--header\).*--no-header"),
        ("train spaces.txt", "expected LIBSVM .* or CSV .* '1 2 3'"),
        ("train empty.libsvm", "empty.libsvm: no rows"),
        ("train comments.libsvm", "comments.libsvm: no rows"),
        ("train rows.mm --model m.mm", "rows.mm: a model file of maxmargin; expected data"),
        ("predict rows.mm rows.mm", "rows.mm: a model file of maxmargin; expected data"),
        ("train narrow.csv --label-column 7", "narrow.csv has no column 7: it has 2 columns"),
        ("train bad.libsvm", "bad.libsvm, line 1, column 3"),
        ("train narrow.csv --label-column kind", "no header"),
        ("predict none.mm rows.libsvm", "none.mm: No such file"),
        ("predict rows.libsvm rows.libsvm", "not a model file"),
        ("predict cut.mm rows.libsvm", "damaged or cut off"),
        ("predict rows.mm none.libsvm", "none.libsvm: No such file"),
        ("predict rows.mm wide.libsvm", "too large for n_features=6"),
        ("predict rows.mm narrow.csv --output out.txt", r"the last of 2 columns\), but the model was trained on 6"),
        ("predict rows.mm rows.libsvm --output nowhere/out.txt", "existing folder"),
        ("predict rows.mm rows.libsvm --output rows.libsvm", "is the data"),
        ("info cut.mm", "damaged or cut off"),
        ("info", "MODEL"),
        ("nonsense", "nonsense"),
        ("tran rows.libsvm", "No such command 'tran'. Did you mean 'train'?"),
        ("train rows.libsvm --n-jobs 0", "n_jobs is 0; expected a number of threads of at least 1, or -1 for all"),
    ],
)
def test_errors_are_short_and_leave_nothing_behind(run, rows, model, tmp_path, args, complaint):
    X, y = data()
    write(tmp_path / "one.libsvm", X, np.ones_like(y))
    write(tmp_path / "wide.libsvm", np.hstack([X, X]), y)
    (tmp_path / "bad.libsvm").write_text("1 x:1\n")
    (tmp_path / "narrow.csv").write_text("1,-1\n2,1\n")
    (tmp_path / "same.csv").write_text("1,1\n2,1\n")
    (tmp_path / "heights.csv").write_text("1,1.81\n2,1.74\n")
    (tmp_path / "unlabelled.csv").write_text("1,yes\n2,\n3,no\n")
    np.save(tmp_path / "unlabelled.npy", [[1.0, 0.0], [2.0, np.nan], [3.0, 1.0]])
    (tmp_path / "words.csv").write_text("yes,1,2\nno,3,4\n")
    (tmp_path / "names.csv").write_text("0,1,kind\n5,6,1\n7,8,2\n")
    (tmp_path / "spaces.txt").write_text("1 2 3\n")
    (tmp_path / "empty.libsvm").write_text("")
    (tmp_path / "comments.libsvm").write_text("# nothing\n")
    (tmp_path / "cut.mm").write_bytes(model.read_bytes()[:-100])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = run(*args.split(), exits=2)
    assert result.stdout == ""
    assert re.search(complaint, result.stderr)
    assert "Traceback" not in result.stderr
    if result.stderr.startswith("maxmargin: error"):
        assert len(result.stderr.splitlines()) <= 2
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_without_permission_is_noticed_before_the_work(run, rows, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)  # a superuser may write anywhere
    assert "no permission to write" in run("train", rows, exits=2).stderr


def test_a_fault_of_ours_keeps_its_traceback(run, rows, monkeypatch):
    def broken(*args, **options):
        raise KeyError("lost")

    monkeypatch.setattr(LinearSVC, "fit", broken)
    assert isinstance(run("train", rows, exits=1).exception, KeyError)


def test_a_checkpoint(run, rows, monkeypatch):
    """The end of a run is saved, the same command finds it, and another one is refused."""
    monkeypatch.setattr("maxmargin.estimators.fit_checkpoint.WORTH_SAVING", 0.0)
    command = ("train", rows, *FAST, "--checkpoint", "run.ckpt")
    run(*command, "--model", "first.mm")
    monkeypatch.setattr("maxmargin.estimators.recipe.solve", None)  # nothing is solved again
    run(*command, "--model", "second.mm")
    np.testing.assert_array_equal(load_model("first.mm").coef_, load_model("second.mm").coef_)
    refused = run(*command, "--class-weight", "balanced", exits=2)
    assert "run.ckpt was written for class_weight=None, this call has class_weight='balanced'" in refused.output
