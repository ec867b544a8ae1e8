"""Reports of models: numbers are those of scikit-learn, what a user gives is escaped, a browser shows the page."""

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_classification, make_moons
from sklearn.metrics import accuracy_score, confusion_matrix, precision_score, recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV, load_model, save_model
from maxmargin.display import ModelReport, measured
from maxmargin.display.style import percent

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
    assert f"{percent(wrong)} of the samples are misclassified" in page.text
    by_class = page.table("Errors by class")
    recall = recall_score(y, predicted, average=None)
    precision = precision_score(y, predicted, average=None)
    assert [row[0] for row in by_class] == [str(label) for label in model.classes_]
    assert [number(row[1]) for row in by_class] == [np.sum(y == label) for label in model.classes_]
    assert [row[3] for row in by_class] == [percent(1 - share) for share in recall]
    assert [row[4] for row in by_class] == [percent(share) for share in precision]
    assert str(model.certificate_)[1:] in page.text
    ledger = dict(page.table("The ledger"))
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
        f"1 and more: {percent(np.mean(margins >= 1))}",
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
    assert "Drawn are 100 of the 300 samples, evenly spaced." in page.text
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
    rows = Page(model.report(X[500:], y[500:]).html).table("The 10 with the largest coefficients")
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
    assert "measured once" not in page
    assert "measured once, at the end" in LinearSVC().fit(X, y).report(X, y).html


def test_holdout_errors_are_drawn(cancer):
    X, y = cancer
    model = LinearSVC(solver="sdca", early_stopping=True, tol=1e-6, random_state=0).fit(X, y)
    assert "Error on the held-out samples" in model.report(X, y).html


def test_a_model_without_a_certificate_says_so(cancer):
    X, y = cancer
    page = Page(LinearSVC(solver="pegasos", max_iter=2, certify=False, random_state=0).fit(X, y).report(X, y).html)
    assert "Not certified" in page.text
    assert "no certificate" in page.text
    assert "The gap was not measured" in page.text


@pytest.mark.parametrize("search", [LinearSVCCV(Cs=[0.1, 1.0]), SVCCV(Cs=[0.1, 1.0], gammas=[0.1, 1.0])])
def test_searches_tell_what_they_chose(search):
    X, y = make_moons(200, noise=0.2, random_state=0)
    search = search.fit(X, y)
    made = search.report(X, y)
    page = Page(made.html)
    assert page.headings[0] == f"{type(search).__name__}: report of a model"
    chosen = page.table("The chosen cell")[0]
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
    assert page.table("The most frequent of the confusions of 25 classes")
    assert len(page.table("Errors by class, the 20 worst of 25")) == 20
    assert "Shown are 12 of 25 models." in page.text


def test_whatever_a_user_gives_is_escaped(cancer):
    X, y = cancer
    X = X.set_axis([f"{MARKUP}{j}" for j in range(30)], axis=1)
    y = np.where(y == y[0], MARKUP, "b")
    model = LinearSVC(class_weight={MARKUP: 2.0, "b": 1.0}).fit(X, y)
    made = ModelReport.from_estimator(model, X, y, data_name=MARKUP, commands=[MARKUP])
    assert "<script" not in made.html
    page = Page(made.html)
    assert page.table("Errors by class")[0][0] == MARKUP
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
    assert "0 % of the samples are misclassified: 0 of 40." in page.text
    assert len(page.headings) == 8


def test_support_vectors_with_equal_coefficients_are_of_all_classes():
    X, y = make_moons(200, noise=0.4, random_state=0)
    page = Page(SVC(C=0.1).fit(X, y).report(X, y).html)
    assert "support vectors share the largest value" in page.text
    assert [row[1] for row in page.table("The 10 with the largest")] == ["0", "1"] * 5


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
    with pytest.raises(ValueError, match="the label 'new', which the model does not know"):
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
  const svg = [...inner.querySelectorAll("svg")].map(picture => picture.getBoundingClientRect().width);
  document.title = [inner.scrollingElement.scrollWidth, style.backgroundColor, Math.min(...svg),
    frame.contentWindow.performance.getEntriesByType("resource").length].join("|");
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
        model = LinearSVC().fit(X, y)
    page = tmp_path / "frame.html"
    page.write_text(FRAME.format(width=width, page=html.escape(model.report(X, y).html)), encoding="utf-8")
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
        "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
        f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1400,900", "--virtual-time-budget=5000",
    ]  # fmt: skip
    command = [CHROMIUM, *options, "--dump-dom", page.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = re.search(r"<title>(\d+)\|([^|]*)\|([\d.]+)\|(\d+)</title>", shown)
    assert found, shown[-500:]
    assert int(found[1]) <= width
    assert found[2] == background
    assert float(found[3]) > 250  # pictures are large enough to be read
    assert found[4] == "0"  # nothing was asked for elsewhere
