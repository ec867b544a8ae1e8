"""Reports of models: numbers are those of scikit-learn, what a user gives is escaped, a browser shows the page."""

import html
import re
import shutil
import subprocess
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification, make_moons
from sklearn.metrics import accuracy_score, confusion_matrix, precision_score, recall_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, EnclosingBall, LinearSVC, LinearSVCCV, load_model, save_model
from maxmargin.display import ModelReport
from maxmargin.display.report import measured, svg
from maxmargin.display.report.text import number_range, seconds
from maxmargin.display.style import percent
from maxmargin.solvers import Simba

MARKUP = "<script>alert('1')</script>&\""


class Page(HTMLParser):
    """The headings, tables and elements of a page; an error where elements are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.tables, self.headings, self.text = [], [], {}, [], ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)
        if tag == "table":
            self.rows, self.caption = [], ""
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in ("h1", "h2"):
            self.headings.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        self.text += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        elif "caption" in self.open:
            self.caption += data
        elif {"h1", "h2"} & set(self.open):
            self.headings[-1] += data

    def table(self, start):
        """The rows of the table whose caption begins so, without its head."""
        [rows] = [rows for caption, rows in self.tables.items() if caption.startswith(start)]
        return rows[1:]


def number(text):
    return int(text.replace(",", ""))


@pytest.fixture(scope="module")
def cancer():
    data = load_breast_cancer(as_frame=True)
    X = pd.DataFrame(StandardScaler().fit_transform(data.data), columns=data.data.columns)
    return X, data.target_names[data.target]


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


def fitted(name, digits, cancer):
    """A model and samples that it was not fitted on."""
    X, y = cancer if name.startswith("two") else digits
    model = {
        "two, linear": LinearSVC(C=0.1),
        "two, rbf": SVC(),
        "ten, linear": LinearSVC(C=0.001),
        "ten, rbf": SVC(),
        "ten, rbf, one-vs-rest": SVC(multi_class="ovr"),
        "ten, linear kernel": SVC(kernel="linear"),
    }[name]
    return model.fit(X[:400], y[:400]), X[400:], y[400:]


@pytest.mark.parametrize(
    "name", ["two, linear", "two, rbf", "ten, linear", "ten, rbf", "ten, rbf, one-vs-rest", "ten, linear kernel"]
)
def test_the_numbers_are_those_of_scikit_learn(name, digits, cancer):
    model, X, y = fitted(name, digits, cancer)
    page, predicted = Page(model.report(X, y).html), model.predict(X)
    matrix = [[number(cell) for cell in row[1:]] for row in page.table("Confusion matrix")]
    np.testing.assert_array_equal(matrix, confusion_matrix(y, predicted))
    wrong = 1 - accuracy_score(y, predicted)
    assert f"The model misclassifies {np.sum(y != predicted)} of {y.size:,} samples ({percent(wrong)})." in page.text
    by_class = page.table("Errors by class")
    recall = recall_score(y, predicted, average=None)
    precision = precision_score(y, predicted, average=None)
    assert [row[0] for row in by_class] == [str(label) for label in model.classes_]
    assert [number(row[1]) for row in by_class] == [np.sum(y == label) for label in model.classes_]
    assert [row[3] for row in by_class] == [percent(1 - share) for share in recall]
    assert [row[4] for row in by_class] == [percent(share) for share in precision]
    assert str(model.certificate_)[1:] in page.text
    ledger = dict(page.table("Entries of the data" if name.endswith("linear") else "Kernel evaluations"))
    assert number(ledger["to learn"]) == model.reads_["learning"]


def test_margins_of_two_classes_are_decision_values_times_labels(cancer):
    X, y = cancer
    model = LinearSVC().fit(X, y)
    margins = measured.measure(model, X, y).margins
    np.testing.assert_allclose(margins, model.decision_function(X) * np.where(y == model.classes_[1], 1, -1))
    page = Page(model.report(X, y).html)
    for text in (
        f"below 0: {percent(np.mean(margins < 0))}",
        f"0 to 1: {percent(np.mean((margins >= 0) & (margins < 1)))}",
        f"1 or more: {percent(np.mean(margins >= 1))}",
    ):
        assert text in page.text


def test_margins_of_several_classes_compare_with_the_best_other_class(digits):
    X, y = digits
    model = LinearSVC(C=0.001).fit(X, y)
    values = model.decision_function(X)
    expected = [row[k] - np.delete(row, k).max() for row, k in zip(values, y, strict=True)]
    np.testing.assert_allclose(measured.measure(model, X, y).margins, expected)


def test_margins_of_pairs_of_classes_are_the_least_value_for_the_own_class():
    X, y = load_iris(return_X_y=True)
    model = SVC(decision_function_shape="ovo").fit(X, y)
    values = dict(zip([(0, 1), (0, 2), (1, 2)], model.decision_function(X).T, strict=True))
    expected = [
        min(value[i] if pair[0] == k else -value[i] for pair, value in values.items() if k in pair)
        for i, k in enumerate(y)
    ]
    np.testing.assert_allclose(measured.measure(model, X, y).margins, expected)
    assert model.decision_function_shape == "ovo"


def test_a_histogram_of_some_samples_says_so(monkeypatch):
    X, y = make_moons(300, random_state=0)
    model = SVC().fit(X, y)
    assert "evenly spaced" not in model.report(X, y).html
    monkeypatch.setattr(measured, "MOST_MARGINS", 100)
    page = Page(model.report(X, y).html)
    assert "The histogram shows 100 of the 300 samples, evenly spaced." in page.text
    assert sum(number(cell) for row in page.table("Confusion matrix") for cell in row[1:]) == 300


@pytest.mark.parametrize("kind", ["csr", "csc", "list", "float32", "in blocks"])
def test_other_kinds_of_data_give_the_same_page(kind, monkeypatch, cancer):
    X, y = cancer[0].to_numpy(), cancer[1]
    model = LinearSVC().fit(X, y)
    expected = Page(model.report(X, y).html)
    if kind == "in blocks":
        monkeypatch.setattr(measured, "BLOCK_VALUES", 50)
    given = {"csr": sp.csr_array, "csc": sp.csc_array, "list": np.ndarray.tolist}.get(kind, np.asarray)(X)
    page = Page(model.report(given.astype(np.float32) if kind == "float32" else given, y).html)
    assert page.tables == expected.tables


def test_a_store_is_read_in_blocks(tmp_path, cancer):
    zarr = pytest.importorskip("zarr")
    X, y = cancer[0].to_numpy(), cancer[1]
    model = LinearSVC().fit(X, y)
    store = zarr.create_array(str(tmp_path / "X.zarr"), shape=X.shape, chunks=(100, 30), dtype=X.dtype)
    store[:] = X
    assert Page(model.report(store, y).html).tables == Page(model.report(X, y).html).tables


def test_features_come_with_their_names(cancer):
    X, y = cancer
    model = LinearSVC().fit(X, y)
    rows = Page(model.report(X, y).html).table("The 10 largest of 30 weights")
    order = np.argsort(-np.abs(model.coef_[0]))[:10]
    assert [row[0] for row in rows] == [X.columns[j] for j in order]
    np.testing.assert_allclose([float(row[1]) for row in rows], model.coef_[0, order], rtol=1e-3)
    given = [f"word {j}" for j in range(30)]
    rows = Page(model.report(X, y, feature_names=given).html).table("The 10 largest of 30 weights")
    assert [row[0] for row in rows] == [f"word {j}" for j in order]
    with pytest.raises(ValueError, match="the model has 30 features; got 2 feature_names"):
        model.report(X, y, feature_names=["a", "b"])


def test_sparse_weights_and_features_without_names(cancer):
    X, y = cancer[0].to_numpy(), cancer[1]
    model = LinearSVC().fit(X, y)
    expected = Page(model.report(X, y).html)
    assert expected.table("The 10 largest")[0][0].startswith("feature ")
    assert Page(model.sparsify().report(X, y).html).tables == expected.tables


def test_support_vectors_are_named_by_their_positions(digits):
    X, y = digits
    model = SVC().fit(X[:500], y[:500])
    sizes = np.abs(model.dual_coef_).sum(axis=0)
    order = np.argsort(-sizes, kind="stable")[:10]
    rows = Page(model.report(X[500:], y[500:]).html).table("The 10 largest coefficients")
    assert [number(row[0]) for row in rows] == model.support_[order].tolist()
    assert [int(row[1]) for row in rows] == y[:500][model.support_[order]].tolist()
    np.testing.assert_allclose([float(row[2]) for row in rows], sizes[order], rtol=1e-3)


def test_a_precomputed_kernel():
    X, y = make_moons(100, random_state=0)
    K = X @ X.T
    page = Page(SVC(kernel="precomputed").fit(K, y).report(K, y).html)
    assert "Most influential support vectors" in page.headings


def test_a_curve_where_there_is_one(cancer):
    X, y = cancer
    model = LinearSVC(solver="sdca", certify="checks", random_state=0).fit(X, y)
    page = model.report(X, y).html
    points = re.search(r'<polyline points="([^"]*)"', page)[1].split()
    assert len(points) == len(model.trace_)
    assert "measured only once" not in page
    assert "measured only once, at the end" in LinearSVC().fit(X, y).report(X, y).html


def test_holdout_errors_are_drawn(cancer):
    X, y = cancer
    model = LinearSVC(solver="sdca", early_stopping=True, tol=1e-6, random_state=0).fit(X, y)
    assert "Error on the held-out samples" in model.report(X, y).html


def test_a_model_without_a_certificate_says_so(cancer):
    X, y = cancer
    page = Page(LinearSVC(solver="pegasos", max_iter=2, certify=False, random_state=0).fit(X, y).report(X, y).html)
    assert "Not certified" in page.text
    assert "no certificate" in page.text
    assert "The relative duality gap was not measured" in page.text
    assert "a proof" not in page.text
    assert not [caption for caption in page.tables if caption.startswith("Value reached")]


@pytest.mark.parametrize("search", [LinearSVCCV(Cs=[0.1, 1.0]), SVCCV(Cs=[0.1, 1.0], gammas=[0.1, 1.0])])
def test_searches_tell_what_they_chose(search):
    X, y = make_moons(200, noise=0.2, random_state=0)
    search = search.fit(X, y)
    made = search.report(X, y)
    page = Page(made.html)
    assert page.headings[0] == f"{type(search).__name__}: model report"
    chosen = page.table("The chosen candidate")[0]
    assert chosen[-1] == "chosen"
    assert chosen[1] == f"{search.best_score_:.4f}"
    assert f"error {percent(1 - search.score(X, y))}" in repr(made)
    unfit = type(search)(Cs=[0.1, 1.0], refit=False).fit(X, y)
    with pytest.raises(AttributeError, match="refit=False"):
        unfit.report(X, y)


def test_models_of_many_classes_fit_on_the_page():
    X, y = make_classification(900, 30, n_informative=25, n_classes=25, n_clusters_per_class=1, random_state=0)
    page = Page(LinearSVC().fit(X, y).report(X, y).html)
    assert not any(caption.startswith("Confusion matrix") for caption in page.tables)
    assert page.table("Most frequent confusions among 25 classes")
    assert len(page.table("Errors by class: the 20 worst of 25")) == 20
    assert "12 of 25 binary problems are shown." in page.text


def test_whatever_a_user_gives_is_escaped(cancer):
    X, y = cancer
    X = X.set_axis([f"{MARKUP}{j}" for j in range(30)], axis=1)
    y = np.where(y == y[0], MARKUP, "b")
    model = LinearSVC(class_weight={MARKUP: 2.0, "b": 1.0}).fit(X, y)
    made = ModelReport.from_estimator(model, X, y, data_name=MARKUP, commands=[MARKUP])
    assert "<script" not in made.html
    page = Page(made.html)
    assert page.table("Errors by class")[0][0] == f"1: {MARKUP}"
    assert page.table("The 10 largest")[0][0].startswith(MARKUP)
    assert made._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    [frame] = Page(made._repr_html_()).elements
    assert frame[1]["srcdoc"] == made.html


def test_the_page_needs_nothing_else_and_can_be_listened_to(digits):
    X, y = digits
    text = LinearSVC(C=0.001).fit(X, y).report(X, y).html
    page = Page(text)
    assert len(text) < 100_000
    assert not re.search(r"https?:|url\(|@import|\ssrc=|\shref=", text)
    assert not {tag for tag, _ in page.elements} & {"script", "link", "img", "iframe", "object"}
    assert all(
        attributes["role"] == "img" and attributes["aria-label"] for tag, attributes in page.elements if tag == "svg"
    )
    assert sum(tag == "h1" for tag, _ in page.elements) == 1
    assert all(page.tables)  # each has a caption
    assert ("html", {"lang": "en"}) in page.elements


def test_the_code_that_it_shows_gives_the_same_model(cancer):
    X, y = cancer
    model = SVC(C=2.0, kernel="poly", degree=2, class_weight={"benign": 2.0}).fit(X, y)
    code = html.unescape(re.search(r"<pre[^>]*><code>(.*?)</code>", model.report(X, y).html, re.DOTALL)[1])
    names = {"X": X, "y": y}
    exec(code, names)
    assert names["model"].get_params() == model.get_params()
    np.testing.assert_array_equal(names["model"].intercept_, model.intercept_)


def test_a_model_from_a_file_has_the_same_page(tmp_path, cancer):
    X, y = cancer
    for model in (LinearSVC(solver="sdca", certify="checks", random_state=0), SVC()):
        model.fit(X, y)
        save_model(model, tmp_path / "model.mm")
        assert load_model(tmp_path / "model.mm").report(X, y).html == model.report(X, y).html


FILES = Path(__file__).parents[1] / "estimators" / "persistence" / "files"


@pytest.mark.parametrize("file", sorted(path.name for path in FILES.glob("*.mm") if "ball" not in path.name))
def test_models_of_older_versions_have_pages(file):
    model = load_model(FILES / file)
    X = np.random.default_rng(0).normal(size=(40, model.n_features_in_))
    page = Page(model.report(X, model.predict(X)).html)
    assert "The model misclassifies 0 of 40 samples (0 %)." in page.text
    assert len(page.headings) == 8


def test_support_vectors_with_equal_coefficients_are_of_all_classes():
    X, y = make_moons(200, noise=0.4, random_state=0)
    page = Page(SVC(C=0.1).fit(X, y).report(X, y).html)
    assert "support vectors share the largest coefficient" in page.text
    assert [row[1] for row in page.table("The 10 largest")] == ["0", "1"] * 5


def test_a_file_is_written_completely_or_not_at_all(tmp_path, cancer):
    X, y = cancer
    made = LinearSVC().fit(X, y).report(X, y)
    path = tmp_path / "report.html"
    made.save(path)
    assert path.read_text(encoding="utf-8") == made.html
    made.html = "\ud800"  # which cannot be encoded
    with pytest.raises(UnicodeEncodeError):
        made.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_what_is_refused(cancer):
    X, y = cancer
    model = LinearSVC().fit(X, y)
    with pytest.raises(ValueError, match="the label 'new', which the model does not know; its classes are 'benign', "):
        model.report(X, np.where(y == y[0], "new", y))
    with pytest.raises(ValueError, match="X has 569 rows, but y has 2 labels"):
        model.report(X, y[:2])
    with pytest.raises(ValueError, match="there are no samples"):
        model.report(X[:0], y[:0])
    with pytest.raises(TypeError, match="lies on a cluster"):
        model.report(SimpleNamespace(__dask_graph__=None), y)
    with pytest.raises(ValueError, match="not fitted"):
        LinearSVC().report(X, y)
    with pytest.raises(TypeError, match="got Pipeline"):
        ModelReport.from_estimator(make_pipeline(StandardScaler(), LinearSVC()).fit(X, y), X, y)


def two_blobs(k=2, n=120, d=5):
    rng, y = np.random.default_rng(0), np.arange(n) % k
    return rng.normal(size=(n, d)) + 1.5 * rng.normal(size=(k, d))[y], y


def shown_code(report):
    return html.unescape(re.search(r"<pre[^>]*><code>(.*?)</code>", report.html, re.DOTALL)[1])


def fitted_by(code, X, y, **names):
    exec(code, names := {"X": X, "y": y, **names})
    return names["model"]


# What is refused says what to do


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_pipeline(StandardScaler(), SVC()), r"got Pipeline .*pipeline\[:-1\].transform\(X\)"),
        (lambda: GridSearchCV(SVC(), {"C": [0.1, 1.0]}), "got GridSearchCV .*Give its best_estimator_"),
        (sklearn.svm.SVC, r"needs a fitted LinearSVC, .* of maxmargin; got SVC \(of the package sklearn\)"),
        (EnclosingBall, "got EnclosingBall"),
    ],
)
def test_other_estimators_are_refused(make, message):
    X, y = two_blobs()
    with pytest.raises(TypeError, match=message):
        ModelReport.from_estimator(make().fit(X, y), X, y)


def test_a_search_without_a_model_is_refused():
    X, y = two_blobs()
    search = SVCCV(Cs=[1.0], gammas=[0.1], refit=False).fit(X, y)
    with pytest.raises(AttributeError, match="set refit=True"):
        ModelReport.from_estimator(search, X, y)


@pytest.mark.parametrize("strange", [None, 4, "new", pd.NA])
def test_labels_of_any_type_are_refused_if_the_model_does_not_know_them(strange):
    X, k = two_blobs()
    y = np.array(["a", "b"], dtype=object)[k]
    model = SVC().fit(X, y)
    y[3] = strange
    with pytest.raises(ValueError, match=f"the label {strange!r}, which .*; its classes are 'a', 'b'"):
        model.report(X, y)


@pytest.mark.parametrize("names", ["abcde", 7])
def test_feature_names_must_be_a_sequence(names):
    X, y = two_blobs()
    model = LinearSVC().fit(X, y)
    with pytest.raises(TypeError, match="feature_names must be a sequence of names"):
        model.report(X, y, feature_names=names)
    assert model.report(X, y, feature_names=iter("abcde")).html == model.report(X, y, feature_names=[*"abcde"]).html


def test_a_single_sample_must_be_a_row():
    X, y = two_blobs()
    model = SVC().fit(X, y)
    with pytest.raises(ValueError, match=r"X must have two dimensions.*X.reshape\(1, -1\)"):
        model.report(X[0], y[:1])
    assert "The model misclassifies 0 of 1 sample (0 %)." in model.report(X[0].reshape(1, -1), y[:1]).html


def test_decision_values_that_are_not_finite_are_refused():
    X, y = two_blobs()
    model = LinearSVC(C=1e4).fit(1e-3 * X, y)
    with (
        pytest.raises(ValueError, match=r"the decision values of .* samples are too large for float64"),
        np.errstate(all="ignore"),
    ):
        model.report(X * 1e307, y)


# Names


def test_names_with_characters_that_html_does_not_allow_can_be_saved(tmp_path):
    X, y = two_blobs()
    names = ["\ud800half", "nul\0", "\x1b[31m", "日本語", "tab\tand\nline"]
    report = LinearSVC().fit(X, y).report(X, y, feature_names=names)
    report.save(tmp_path / "report.html")
    shown = {row[0] for row in Page((tmp_path / "report.html").read_text(encoding="utf-8")).table("The 5 largest")}
    assert shown == {"\ufffdhalf", "nul\ufffd", "\ufffd[31m", "日本語", "tab\tand\nline"}


def test_very_long_names_are_shortened():
    X, y = two_blobs()
    rows = Page(LinearSVC().fit(X, y).report(X, y, feature_names=[f"{k}{'x' * 5000}{k}" for k in range(5)]).html).table(
        "The 5 largest"
    )
    assert {(row[0][0], row[0][-1], len(row[0])) for row in rows} == {(str(k), str(k), 80) for k in range(5)}


def test_classes_with_long_names_have_numbers_in_the_confusion_matrix():
    X, k = two_blobs(k=3)
    y = np.array([f"a rather long name of class {j}" for j in range(3)])[k]
    page = Page(SVC().fit(X, y).report(X, y).html)
    assert [row[0] for row in page.table("Confusion matrix")] == ["1", "2", "3"]
    assert [row[0] for row in page.table("Errors by class")] == [
        f"{j + 1}: a rather long name of class {j}" for j in range(3)
    ]


def test_labels_that_end_like_versions_keep_their_end():
    X, k = two_blobs(k=3)
    page = Page(SVC().fit(X, np.array(["v1.0", "v2.0", "v2"])[k]).report(X, np.array(["v1.0", "v2.0", "v2"])[k]).html)
    assert [row[0] for row in page.table("Errors by class")] == ["v1.0", "v2", "v2.0"]
    assert {row[0] for row in page.table("Value reached")} == {
        "v1.0 against v2",
        "v1.0 against v2.0",
        "v2 against v2.0",
    }


# Unusual models


def test_the_code_has_values_of_numpy_as_plain_ones():
    X, k = two_blobs(k=3)
    y = np.array(["a", "b", "c"])[k]
    weights = dict(zip(np.unique(y), np.array([1.0, 2.0, 3.0]), strict=True))
    model = LinearSVC(C=np.float64(0.1), class_weight=weights, random_state=np.int64(0)).fit(X, y)
    code = shown_code(model.report(X, y))
    assert "class_weight={'a': 1.0, 'b': 2.0, 'c': 3.0}" in code
    np.testing.assert_array_equal(fitted_by(code, X, y).coef_, model.coef_)


def test_the_code_imports_a_solver_object():
    X, y = two_blobs()
    model = LinearSVC(slack=0.02, solver=Simba(columns=4), random_state=0).fit(X, y)
    code = shown_code(model.report(X, y))
    assert "solver=Simba(columns=4)" in code
    np.testing.assert_array_equal(fitted_by(code, X, y).coef_, model.coef_)


@pytest.mark.parametrize(
    ("kernel", "name"),
    [(rbf_kernel, "rbf_kernel"), (lambda A, B: A @ B.T, "kernel"), (partial(rbf_kernel, gamma=0.3), "kernel")],
)
def test_a_kernel_function_has_a_name_and_no_address(kernel, name):
    X, y = two_blobs()
    model = SVC(kernel=kernel).fit(X, y)
    report = model.report(X, y)
    assert not re.search("0x[0-9a-f]{6}", report.html, re.IGNORECASE)
    code = shown_code(report)
    assert f"# Define {name} first" in code
    np.testing.assert_array_equal(fitted_by(code, X, y, **{name: kernel}).intercept_, model.intercept_)
    assert "gamma" not in dict(Page(report.html).table("The fitted model"))


def test_a_random_state_object_has_no_address():
    X, y = two_blobs()
    report = LinearSVC(random_state=np.random.RandomState(0)).fit(X, y).report(X, y)
    assert not re.search("0x[0-9a-f]{6}", report.html, re.IGNORECASE)
    assert "random_state=random_state" in shown_code(report)


def test_a_precomputed_kernel_has_no_features():
    X, y = two_blobs()
    page = Page(SVC(kernel="precomputed").fit(X @ X.T, y).report(X @ X.T, y).html)
    assert "A classifier with a precomputed kernel for 2 classes, trained on 120 samples" in page.text


def test_a_model_whose_weights_are_all_zero():
    X, y = two_blobs()
    with pytest.warns(UserWarning, match="the same class"):
        model = LinearSVC().fit(np.zeros_like(X), y)
    page = Page(model.report(X, y).html)
    assert "All weights are zero." in page.text
    assert not [caption for caption in page.tables if "largest" in caption]


def test_a_certificate_with_a_condition_says_so():
    X, y = two_blobs()
    model = SVC(kernel=rbf_kernel).fit(X, y)
    assert model.certificate_.provided
    assert "at most, proven under a condition" in model.report(X, y).html
    assert "at most, proven" in (plain := SVC().fit(X, y).report(X, y).html)
    assert "under a condition" not in plain


def test_many_classes_without_an_error():
    X, y = two_blobs(k=30, n=900, d=60)
    page = Page(SVC().fit(X, y).report(X, y).html)
    assert "The model misclassifies 0 of 900 samples" in page.text
    assert not [caption for caption in page.tables if caption.startswith("Most frequent confusions")]
    assert "of class 29" not in page.text  # a list of the support vectors of each class would be long


def test_samples_that_lack_a_class():
    X, y = two_blobs(k=3)
    model = SVC().fit(X, y)
    rows = Page(model.report(X[y != 1], y[y != 1]).html).table("Errors by class")
    assert rows[1][1:4] == ["0", "0", "no samples"]


# Pictures


def bars(report, colour):
    """The heights of the bars of a colour, as the number of samples that they stand for."""
    heights = re.findall(rf'height="([\d.]+)" class="bar{colour}"', report.html)
    return sum(map(float, heights))


def test_a_misclassified_sample_far_from_all_others_is_drawn_as_one():
    X = np.concatenate([np.tile([[0.0], [1.0]], (300, 1)), np.zeros((2, 1))])
    y = np.array([0, 1] * 300 + [1, 1])
    report = LinearSVC().fit(X[:-2], y[:-2]).report(X, y)
    assert "below 0: 0.332 %" in report.html
    assert bars(report, 0) > 0


def test_numbers_of_an_axis_have_room():
    X, y = two_blobs(n=400)
    report = LinearSVC(solver="sdca", tol=1e-12, certify="checks", random_state=0).fit(X, y).report(X, y)
    labels = re.findall('class="left">([^<]*)<', report.html)
    assert max(map(len, labels)) <= 8


def test_no_value_is_lost_to_the_rounding_of_bins():
    picture = svg.histogram(np.array([-1.00000000004]), [0.0, 1.0], label="margin", described="one sample")
    assert len(re.findall('class="bar0"', picture)) == 1


def test_the_marks_of_a_logarithmic_axis_are_inside_the_picture():
    runs = {"": (np.array([13.0, 808.0, 812.0]), np.array([0.1, 0.01, 0.001]))}
    picture = svg.curves(runs, label="entries read", described="a run")
    marks = re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="below">([^<]*)<', picture)
    assert [text for _, text in marks] == ["10", "100", "1 k"]
    assert all(svg.LEFT <= float(x) <= svg.WIDTH - svg.RIGHT for x, _ in marks)


def test_large_numbers():
    assert svg.counted(999_999) == "1 M"
    assert svg.counted(999.7) == "1 k"
    assert seconds(1234.5) == "1,234 s"
    assert number_range([0.5, np.nan]) == "0.5 (some not known)"


# In a browser

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LIGHT, DARK = 1, 0
# The page is shown in a frame of a given width, and its own width is measured.
FRAME = """<!DOCTYPE html><body style="margin:0">
<iframe id="page" style="width:{width}px;height:800px;border:0" srcdoc="{page}"></iframe>
<script>
const frame = document.getElementById("page");
frame.onload = () => {{
  const inner = frame.contentDocument, style = frame.contentWindow.getComputedStyle(inner.body);
  const box = element => element.getBoundingClientRect(), pictures = [...inner.querySelectorAll("svg")];
  const svg = pictures.map(picture => box(picture).width);
  const clipped = pictures.flatMap(picture => [...picture.querySelectorAll("text")].filter(text =>
    box(text).left < box(picture).left || box(text).right > box(picture).right
    || box(text).bottom > box(picture).bottom));
  const wide = [...inner.querySelectorAll(".scroll")].filter(table => table.scrollWidth > table.clientWidth)
    .map(table => table.getAttribute("aria-label"));
  document.title = [inner.scrollingElement.scrollWidth, style.backgroundColor, Math.min(...svg),
    frame.contentWindow.performance.getEntriesByType("resource").length, clipped.length, wide].join("|");
}};
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look at the page with")
@pytest.mark.parametrize(("scheme", "background"), [(LIGHT, "rgb(246, 247, 249)"), (DARK, "rgb(18, 22, 28)")])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["two, linear", "ten, rbf"])
def test_a_browser_shows_it_without_scrolling_sideways(name, width, scheme, background, tmp_path, digits, cancer):
    model, X, y = fitted(name, digits, cancer)
    if name == "two, linear":
        X, y = X.set_axis(["a_name_of_many_characters_" * 4 + str(j) for j in range(30)], axis=1), np.asarray(y)
        model = LinearSVC(solver="sdca", tol=1e-9, certify="checks", random_state=0).fit(X, y)
    page = tmp_path / "frame.html"
    page.write_text(FRAME.format(width=width, page=html.escape(model.report(X, y).html)), encoding="utf-8")
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1400,900", "--virtual-time-budget=5000",
    ]  # fmt: skip
    command = [CHROMIUM, *options, "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>(\d+)\|([^|]*)\|([\d.]+)\|(\d+)\|(\d+)\|([^<]*)</title>", shown)
    assert found, shown[-500:]
    assert int(found[1]) <= width
    assert found[2] == background
    assert float(found[3]) > 250  # pictures are large enough to be read
    assert found[4] == "0"  # nothing was asked for elsewhere
    assert found[5] == "0"  # no number or label of a picture is cut off
    assert found[6] == ""  # no table is wider than its section
