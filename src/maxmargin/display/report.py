"""A report of a fitted model on samples with labels: one page of HTML that needs nothing else."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.types import Vector
from maxmargin.data import atomic_write
from maxmargin.display.convergence import LABELS, ConvergenceDisplay, known_gap
from maxmargin.display.html import Html, element, paragraph, table
from maxmargin.display.measured import Measured, measure
from maxmargin.display.style import percent
from maxmargin.display.svg import counted, curves, histogram
from maxmargin.estimators.base import MarginClassifier, decisive_parameters
from maxmargin.estimators.words import PURPOSES, STOPPED, count, label_text
from maxmargin.solvers import Trace, Traces

MOST_CLASSES = 20  # a confusion matrix of more does not fit on a page: the most frequent confusions are listed
WIDE_CLASSES = 6  # a confusion matrix of more has narrow columns
MOST_ROWS = 10  # of a table of binary problems, features, support vectors or confusions
MOST_FEATURES = 5  # of each of several binary problems
MOST_PROBLEMS = 12  # binary problems whose features are listed
MOST_CURVES = 6  # binary problems whose convergence is drawn, those with the largest gaps
FAR = 3.0  # values farther from the middle 98 % than this many times their spread are drawn at the end of the axis
LONGEST_LINE = 40  # characters of arguments; of more, each is on a line of its own
TELLABLE_DIGITS = 9  # of the coefficients of support vectors, which are equal but for rounding where all of these are
NOT_KNOWN = "not known"


class ModelReport:
    """A report of a fitted model, as one page of HTML that needs no network and no script.

    It says what the model is, how good it provably is, where it errs, how its margins are spread, how the fit
    converged, which features or support vectors matter most, what was read, and how to fit the model again. In a
    notebook it shows itself.

    Parameters
    ----------
    html : str
        The page.
    summary : str
        What the page says in a few words: the estimator and its error.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = SVC().fit(X, y).report(X, y)
    >>> report
    <ModelReport: SVC, error 7.73 % of 569 samples>
    >>> "objective is within" in report.html
    True
    """

    def __init__(self, html: str, summary: str) -> None:
        self.html, self.summary = html, summary

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        feature_names: Sequence[str] | None = None,
        data_name: str = "",
        commands: Sequence[str] = (),
    ) -> ModelReport:
        """Make the report of an estimator on samples, better others than those that it was fitted on.

        Parameters
        ----------
        estimator : LinearSVC, SVC, LinearSVCCV or SVCCV
            A fitted estimator.
        X : array, sparse matrix, data frame or store of shape (m, d)
            Samples. They are predicted a block at a time.
        y : array of shape (m,)
            Their labels, all of them classes of the model.
        feature_names : sequence of str or None
            The names of the features; None: those that the model was fitted with, or else positions.
        data_name : str
            What the page calls the samples.
        commands : sequence of str
            Commands of a shell that the page shows, for whoever wants to make it again.

        Returns
        -------
        ModelReport
        """
        check_is_fitted(estimator)
        model = getattr(estimator, "best_estimator_", estimator)
        if not isinstance(model, MarginClassifier):
            raise TypeError(f"a report is made of LinearSVC, SVC and their CV versions; got {type(model).__name__}")
        names = _feature_names(model, feature_names)
        measured = measure(model, X, y)
        name = type(estimator).__name__
        columns = [
            [_errors(model, measured), _margins(model, measured), _influence(model, names)],
            [_certificate(model), _convergence(model), _search(estimator), _ledger(model), _settings(model, commands)],
        ]
        where = f"{count(measured.n, 'sample')}{f' of {data_name}' if data_name else ''}"
        page = _page(name, _header(model, name, where, measured), columns)
        return cls(page, f"{name}, error {percent(measured.error)} of {count(measured.n, 'sample')}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, completely or not at all.

        Parameters
        ----------
        path : str or path
            One that exists is replaced.
        """
        with atomic_write(path) as file:
            file.write(self.html.encode())

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style changes nothing else in a notebook."""
        style = "width: 100%; height: 45rem; border: 0"
        return element("iframe", srcdoc=self.html, style=style, title="Report of a model")

    def __repr__(self) -> str:
        return f"<ModelReport: {self.summary}>"


def _feature_names(model: MarginClassifier, given: Sequence[str] | None) -> list[str]:
    names = getattr(model, "feature_names_in_", None) if given is None else given
    if names is None:
        return [f"feature {k}" for k in range(model.n_features_in_)]
    if len(names) != model.n_features_in_:
        raise ValueError(f"the model has {count(model.n_features_in_, 'feature')}; got {len(names):,} feature_names")
    return [str(name) for name in names]


# The sections of the page


def _page(title: str, header: Html, columns: Sequence[Sequence[Html]]) -> str:
    """The page: sections in columns, which follow each other where there is no room for two side by side."""
    style = Html(Path(__file__).with_name("report.css").read_text(encoding="utf-8"))
    head = element(
        "head",
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", f"{title}: report of a model"),
        element("style", style),
    )
    footer = element("footer", f"Made by maxmargin {_version()}. This page is complete: it loads nothing.")
    body = element("body", header, element("main", *(element("div", *sections) for sections in columns)), footer)
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"


def _section(title: str, *content: object) -> Html:
    return element("section", element("h2", title), *content)


def _header(model: MarginClassifier, name: str, where: str, measured: Measured) -> Html:
    classes, features = count(model.classes_.size, "class", "classes"), count(model.n_features_in_, "feature")
    fitted = getattr(model, "_n_rows", None) or next(iter(getattr(model, "shape_fit_", ())), None)
    learned = f", fitted on {count(fitted, 'sample')}" if fitted else ""
    kernel = _kernel_in_words(model)
    what = f"A {kernel} classifier of {classes} and {features}{learned}; measured here on {where}."
    work = ("kernel evaluations", model.kernel_evaluations_) if kernel != "linear" else ("entries", model.entries_read_)
    certified = bool(model.certificate_)
    tiles = [
        ("Error", percent(measured.error), f"{measured.wrong:,} of {measured.n:,} samples"),
        (
            "From the best possible",
            percent(model.certificate_.relative_gap) if certified else NOT_KNOWN,
            "at most, proved" if certified else "no certificate",
        ),
        ("Read to learn", counted(work[1]), work[0]),
    ]
    if hasattr(model, "n_support_"):
        tiles.append(("Support vectors", f"{model.support_.size:,}", f"of {fitted:,} samples" if fitted else ""))
    else:
        used = model.coef_.nnz if issparse(model.coef_) else np.count_nonzero(model.coef_)
        tiles.append(("Weights", f"{used:,}", f"of {np.prod(model.coef_.shape):,} are not zero"))
    shown = [
        element("div", element("dt", label), element("dd", value, element("small", note)))
        for label, value, note in tiles
    ]
    return element(
        "header",
        element("h1", f"{name}: report of a model"),
        paragraph(what, class_="lead"),
        element("dl", *shown, class_="tiles"),
    )


def _kernel_in_words(model: MarginClassifier) -> str:
    if "kernel" not in model.get_params(deep=False):
        return "linear"
    return f"kernel ({getattr(model.kernel, '__name__', model.kernel)})"


def _certificate(model: MarginClassifier) -> Html:
    sentence = str(model.certificate_)
    stopped = Counter(STOPPED.get(why, why) for why in np.atleast_1d(model.stopped_).tolist())
    several = len(stopped) > 1
    why = "; ".join(f"{reason} ({count(n, 'model')})" if several else reason for reason, n in stopped.most_common())
    content = [
        paragraph(sentence[:1].upper() + sentence[1:] + ".", class_="lead"),
        paragraph(f"Why it ended: {why}."),
    ]
    named = _by_problem(model, model.certificate_)
    worst = sorted(named, key=lambda item: -item[1].relative_gap if item[1] else -np.inf)[:MOST_ROWS]
    rows = [
        (name, _number(found.primal), _number(found.dual), percent(found.relative_gap) if found else NOT_KNOWN)
        for name, found in worst
    ]
    more = f": the {len(rows)} loosest of {len(named):,} models" if len(named) > len(rows) else ""
    content.append(table(f"Value reached and bound that no model beats{more}", _GAP_HEAD, rows))
    content.append(
        paragraph(
            "The certificate is about the training problem, and holds whatever the solver did. "
            "It does not promise a small error on new samples.",
            class_="soft",
        )
    )
    return _section("How good it provably is", *content)


_GAP_HEAD = ("model", "reached", "bound", "gap")


def _problem_names(model: MarginClassifier) -> list[str]:
    """The names of the binary problems; that of a single one says which its classes are."""
    names = list(model._strategy.names)
    return names if len(names) > 1 else [" or ".join(label_text(model.classes_))]


def _by_problem(model: MarginClassifier, values: Any) -> list[tuple[str, Any]]:
    """Certificates or traces with the names of their binary problems."""
    names = _problem_names(model)
    return list(zip(names, values if len(names) > 1 else [values], strict=True))


def _errors(model: MarginClassifier, measured: Measured) -> Html:
    classes, confusion = label_text(model.classes_), measured.confusion
    content: list[object] = [
        paragraph(
            f"{percent(measured.error)} of the samples are misclassified: {measured.wrong:,} of {measured.n:,}.",
            class_="lead",
        )
    ]
    most = confusion.max()
    if len(classes) <= MOST_CLASSES:
        rows = [
            (name, *(_confusion_cell(int(n), n / most, right=i == j) for j, n in enumerate(confusion[i])))
            for i, name in enumerate(classes)
        ]
        caption = "Confusion matrix: a row for each true class, a column for each prediction"
        style = "matrix" if len(classes) <= WIDE_CLASSES else "matrix many"
        content.append(table(caption, ("", *classes), rows, class_=style))
    else:
        off = confusion - np.diag(np.diag(confusion))
        largest = [at for at in np.argsort(-off, axis=None, kind="stable")[:MOST_ROWS].tolist() if off.flat[at]]
        pairs = [(classes[at // len(classes)], classes[at % len(classes)], f"{off.flat[at]:,}") for at in largest]
        caption = f"The most frequent of the confusions of {len(classes):,} classes"
        style = "matrix" if len(classes) <= WIDE_CLASSES else "matrix many"
        content.append(table(caption, ("true class", "predicted", "samples"), pairs))
    of_class, right = confusion.sum(axis=1), np.diag(confusion)
    chosen = confusion.sum(axis=0)
    shares = 1 - right / np.maximum(of_class, 1)
    worst = np.argsort(-shares, kind="stable")[:MOST_CLASSES] if len(classes) > MOST_CLASSES else range(len(classes))
    rows = [
        (
            classes[k],
            f"{of_class[k]:,}",
            f"{of_class[k] - right[k]:,}",
            percent(shares[k]) if of_class[k] else "no samples",
            percent(right[k] / chosen[k]) if chosen[k] else "never predicted",
        )
        for k in worst
    ]
    more = f", the {MOST_CLASSES} worst of {len(classes):,}" if len(classes) > MOST_CLASSES else ""
    head = ("class", "samples", "wrong", "error", "precision")
    content.append(table(f"Errors by class{more}", head, rows))
    return _section("Where it errs", *content)


def _confusion_cell(n: int, share: float, *, right: bool) -> Html:
    kind = "none" if not n else "right" if right else "wrong"
    return element("td", f"{n:,}", class_=kind, style=f"--share: {share:.3f}" if n else None)


def _margins(model: MarginClassifier, measured: Measured) -> Html:
    values, pairs = measured.margins, model._strategy.classes_by_model
    if len(pairs) == 1:
        limits = [0.0, 1.0]
        what = (
            "The decision value of a sample times its label, -1 or 1. Below 0 it is misclassified; at 1 it is at the "
            "margin."
        )
    elif len(pairs[0]) == 1:
        limits = [0.0]
        what = (
            "The decision value of a sample for its own class, less that for the best other one. Below 0 it is "
            "misclassified."
        )
    else:
        limits = [0.0, 1.0]
        what = (
            "The least decision value of a sample for its own class against another one. Below 0, a model prefers the "
            "other class, though the most votes may still be for the right one."
        )
    shares = np.bincount(np.searchsorted(limits, values, side="right"), minlength=len(limits) + 1) / values.size
    names = ("below 0", "0 to 1", "1 and more") if len(limits) == 2 else ("below 0", "0 and more")
    colours = ("bad", "near", "good") if len(limits) == 2 else ("bad", "good")
    key = [
        element("li", f"{name}: {percent(share)}", style=f"--colour: var(--{colour})")
        for name, share, colour in zip(names, shares, colours, strict=True)
    ]
    low, high = np.quantile(values, [0.01, 0.99])
    reach = FAR * (high - low)
    near = np.clip(values, low - reach, high + reach)
    far = int(np.count_nonzero(near != values))
    notes = []
    if values.size < measured.n:
        notes.append(f"Drawn are {values.size:,} of the {measured.n:,} samples, evenly spaced.")
    if far:
        notes.append(f"{count(far, 'value')} beyond the axis {'is' if far == 1 else 'are'} drawn at its ends.")
    described = "Histogram of margins. " + "; ".join(
        f"{name}: {percent(share)}" for name, share in zip(names, shares, strict=True)
    )
    drawn = element(
        "figure",
        histogram(near, limits, label="margin", described=described),
        element("figcaption", element("ul", *key, class_="key")),
        class_="two" if len(limits) == 1 else None,
    )
    return _section("Margins", paragraph(what), drawn, *(paragraph(note, class_="soft") for note in notes))


def _convergence(model: MarginClassifier) -> Html:
    trace = model.trace_
    display = ConvergenceDisplay(trace if isinstance(trace, Traces) else {"": trace})
    gaps = {name: known_gap(one) for name, one in display.traces.items()}
    content: list[object] = []
    drawn = {name: gap for name, gap in gaps.items() if np.isfinite(gap).sum() > 1}
    largest = sorted(drawn, key=lambda name: -drawn[name][np.isfinite(drawn[name])][-1])[:MOST_CURVES]
    if largest:
        content += _curves(display, {name: gaps[name] for name in largest}, "Relative gap", logarithmic=True)
        if len(display.traces) > len(largest):
            text = f"Drawn are the {len(largest)} models with the largest gaps, of {len(gaps):,}."
            content.append(paragraph(text, class_="soft"))
    errors = {name: one.column("holdout_error") for name, one in display.traces.items()}
    held = {name: error for name, error in errors.items() if np.isfinite(error).sum() > 1}
    if held:
        some = dict(list(held.items())[:MOST_CURVES])
        content += _curves(display, some, "Error on the held-out samples", logarithmic=False)
    if not content:
        known = any(np.isfinite(gap).any() for gap in gaps.values())
        once = "The gap was measured once, at the end, so that there is no curve to draw."
        text = once if known else "The gap was not measured, so that there is no curve to draw."
        content.append(paragraph(text))
    content.append(_last_checks(model, trace))
    return _section("How the fit converged", *content)


def _curves(
    display: ConvergenceDisplay, shares: Mapping[str, Vector], title: str, *, logarithmic: bool
) -> Iterator[Html]:
    series = {}
    for name, share in shares.items():
        known = np.isfinite(share)
        series[name] = display.traces[name].column(display.x)[known].astype(np.float64), share[known]
    unit = " in seconds" if display.x == "seconds" else ""
    last = ", ".join(f"{name} {percent(share[-1])}".strip() for name, (_, share) in series.items())
    picture = curves(
        series,
        label=LABELS[display.x] + unit,
        described=f"{title} against {LABELS[display.x]}; at the end: {last}",
        logarithmic=logarithmic,
        level=display._tol if logarithmic else None,
    )
    key = [element("li", name, style=f"--colour: var(--line{k})") for k, name in enumerate(series) if name]
    dashed = f"; dashed: tol, {percent(display._tol)}" if logarithmic and display._tol else ""
    yield element(
        "figure",
        picture,
        element("figcaption", f"{title}{dashed}", element("ul", *key, class_="key") if key else ""),
    )


def _last_checks(model: MarginClassifier, trace: Trace | Traces) -> Html:
    """A table of where each fit ended; of many, of those that took the most iterations."""
    ends = [(name, one[-1], len(one)) for name, one in _by_problem(model, trace) if len(one)]
    longest = sorted(ends, key=lambda item: -item[1].iteration)[:MOST_ROWS]
    rows = [(name, f"{row.iteration:,}", f"{checks:,}", f"{row.seconds:.3g} s") for name, row, checks in longest]
    more = f", the {len(rows)} longest of {len(ends):,}" if len(ends) > len(rows) else ""
    head = ("model", "iterations", "checks", "time")
    return table(f"The last check of each model{more}", head, rows) if rows else Html("")


def _influence(model: MarginClassifier, names: Sequence[str]) -> Html:
    """The most telling features where the model has weights for them, else the most influential support vectors."""
    if getattr(model, "kernel", "linear") == "linear":
        return _features(model, names)
    return _support_vectors(model)


def _features(model: MarginClassifier, names: Sequence[str]) -> Html:
    problems = list(enumerate(_problem_names(model)))
    classes = label_text(model.classes_)
    content: list[object] = []
    if len(problems) == 1:
        content.append(paragraph(f"Positive weights speak for {classes[1]}, negative ones for {classes[0]}."))
    for k, name in problems[:MOST_PROBLEMS]:
        row = model.coef_[[k]]
        weights = np.asarray(row.toarray() if issparse(row) else row)[0]
        order = np.argsort(-np.abs(weights), kind="stable")[: MOST_ROWS if len(problems) == 1 else MOST_FEATURES]
        order = order[weights[order] != 0]
        bars = _bars(weights[order])
        rows = [(names[j], _number(weights[j]), bar) for j, bar in zip(order.tolist(), bars, strict=True)]
        caption = f"The {len(rows)} largest of {len(names):,} weights"
        several = len(problems) > 1
        content.append(table(f"{name}: {caption[0].lower()}{caption[1:]}" if several else caption, _WEIGHT_HEAD, rows))
    if len(problems) > MOST_PROBLEMS:
        content.append(paragraph(f"Shown are {MOST_PROBLEMS} of {len(problems):,} models.", class_="soft"))
    note = "Weights can be compared with each other where the features have the same scale."
    return _section("Most telling features", *content, paragraph(note, class_="soft"))


_WEIGHT_HEAD = ("feature", "weight", "")


def _bars(values: Vector) -> list[Html]:
    """Cells with bars: positive values to the right, negative ones to the left, of a middle if there are both."""
    shares = values / np.abs(values).max(initial=1e-300)
    both = bool((shares > 0).any() and (shares < 0).any())
    cells = []
    for share in shares.tolist():
        width = abs(share) * (50 if both else 100)
        start = 0 if not both else 50 if share > 0 else 50 - width
        bar = element(
            "div", style=f"--from: {start:.1f}%; --width: {width:.1f}%", class_="minus" if share < 0 else None
        )
        cells.append(element("td", bar, class_="size", aria_hidden="true"))
    return cells


def _support_vectors(model: Any) -> Html:
    sizes = np.abs(model._dual_coef).sum(axis=0)
    classes = np.repeat(label_text(model.classes_), model.n_support_)
    share = f"{count(sizes.size, 'support vector')} of {count(model.shape_fit_[0], 'sample')}"
    by_class = "; ".join(
        f"{n:,} of class {name}" for name, n in zip(label_text(model.classes_), model.n_support_, strict=True)
    )
    content: list[object] = [paragraph(f"The model is made of {share}" + (f": {by_class}." if classes.size else "."))]
    most = sizes.max(initial=0)
    # Many may be at the bound that C sets: of equals, the first ones of each class.
    place = np.concatenate([np.arange(n) for n in model.n_support_])
    order = np.lexsort((place, -np.round(sizes / most, TELLABLE_DIGITS)))[:MOST_ROWS]
    rows = [
        (f"{model.support_[k]:,}", str(classes[k]), _number(sizes[k]), bar)
        for k, bar in zip(order.tolist(), _bars(sizes[order]), strict=True)
    ]
    head = ("training sample", "class", "coefficients", "")
    content.append(table(f"The {len(rows)} with the largest coefficients, added up over the models", head, rows))
    equal = int(np.count_nonzero(np.round(sizes / most, TELLABLE_DIGITS) == 1))
    if equal > 1:
        note = f"{equal:,} support vectors share the largest value; shown are the first ones of each class."
        content.append(paragraph(note, class_="soft"))
    return _section("Most influential support vectors", *content)


def _search(estimator: Any) -> Html:
    if not hasattr(estimator, "cv_results_"):
        return Html("")
    results, best = estimator.cv_results_, estimator.best_index_
    scores = np.asarray(results["mean_test_score"])
    others = [k for k in np.argsort(-scores, kind="stable").tolist() if k != best and np.isfinite(scores[k])]
    rows = [
        (
            _named_values(results["params"][k]),
            f"{results['mean_test_score'][k]:.4f}",
            f"{results['standard_error'][k]:.4f}",
            "chosen" if k == best else "left early" if results["left_early"][k] else "",
        )
        for k in [best, *others][:MOST_ROWS]
    ]
    folds, cells = estimator.scores_.shape[-1], len(results["params"])
    text = f"{_named_values(estimator.best_params_)}, of {count(cells, 'cell')} compared over {count(folds, 'fold')}."
    return _section(
        "How it was chosen",
        paragraph(text),
        table("The chosen cell, and the best of the others", ("cell", "mean score", "standard error", ""), rows),
    )


def _named_values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {_number(value)}" for name, value in values.items())


def _ledger(model: MarginClassifier) -> Html:
    kernel = bool(model.kernel_evaluations_)
    unit = "kernel evaluations" if kernel else "entries of the data"
    rows = [
        (PURPOSES.get(purpose, purpose), f"{n:,}")
        for purpose, n in model.reads_.items()
        if purpose != "learning, dense count" and (n or purpose == "learning")
    ]
    dense = model.reads_.get("learning, dense count")
    if dense not in (None, model.reads_.get("learning")):
        rows.insert(1, ("to learn, with zeros that are not stored", f"{dense:,}"))
    return _section("What was read", table(f"The ledger of the fit: {unit}, by purpose", ("purpose", "count"), rows))


def _settings(model: MarginClassifier, commands: Sequence[str]) -> Html:
    defaults = type(model)().get_params(deep=False)
    given = {name: repr(value) for name, value in decisive_parameters(model).items()}
    each = [f"{name}={value}" for name, value in given.items() if value != repr(defaults[name])]
    arguments = ", ".join(each)
    if len(arguments) > LONGEST_LINE:
        arguments = "".join(f"\n    {argument}," for argument in each) + "\n"
    name = type(model).__name__
    module = "maxmargin.dask" if type(model).__module__.startswith("maxmargin.dask") else "maxmargin"
    code = f"from {module} import {name}\n\nmodel = {name}({arguments})\nmodel.fit(X, y)\nmodel.report(X, y)"
    content: list[object] = [element("pre", element("code", code), tabindex="0")]
    if commands:
        content += [paragraph("This page:"), element("pre", element("code", "\n".join(commands)), tabindex="0")]
    if model.random_state is None:
        content.append(
            paragraph(
                "No random_state was given: where the solver draws at random, another fit differs within the gap.",
                class_="soft",
            )
        )
    found = [
        ("solver", model.solver_),
        ("loss", model.loss_),
        ("C", _range(model.C_)),
        ("slack", _range(model.slack_)),
        ("margin", _range(model.margin_)),
        ("scale of the rows", _range(model.scale_)),
        ("iterations", _range(model.n_iter_)),
    ]
    if hasattr(model, "gamma_"):
        found.insert(2, ("gamma", _range(model.gamma_)))
    content.append(table("What was taken and reached", ("quantity", "value"), found, class_="text"))
    all_given = [(name, repr(value)) for name, value in model.get_params(deep=False).items()]
    listed = table("All parameters", ("parameter", "value"), all_given, class_="text")
    content.append(element("details", element("summary", f"All {len(all_given)} parameters"), listed))
    versions = {
        "maxmargin": _version(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    content.append(paragraph(", ".join(f"{name} {version}" for name, version in versions.items()), class_="soft"))
    return _section("Settings, and how to fit it again", *content)


def _range(values: Any) -> str:
    """A number, or the least and the largest of several."""
    several = np.unique(np.asarray(values, dtype=np.float64))
    if several.size > 1:
        return f"{_number(several[0])} to {_number(several[-1])}"
    return _number(float(several[0]))


def _number(value: float) -> str:
    """A number to four digits, for people.

    >>> _number(1234567.0), _number(0.000123456), _number(float("nan"))
    ('1,235,000', '0.0001235', 'not known')
    """
    if np.isnan(value):
        return NOT_KNOWN
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if 1e4 <= abs(rounded) < 1e9 else f"{rounded:.4g}"


def _version() -> str:
    from maxmargin import __version__

    return __version__
