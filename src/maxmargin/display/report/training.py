"""The sections about the fit: its certificate, its convergence, the search for its parameters, and the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from maxmargin.core.types import Vector
from maxmargin.display.convergence import LABELS, ConvergenceDisplay, known_gap
from maxmargin.display.report.html import Html, element, paragraph, section, table
from maxmargin.display.report.svg import curves
from maxmargin.display.report.text import NOT_KNOWN, number, problem_names, seconds
from maxmargin.display.style import percent
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.cross_validated import CrossValidatedClassifier
from maxmargin.estimators.words import PURPOSES, STOPPED, count
from maxmargin.solvers import Trace, Traces

MOST_ROWS = 10  # of a table of binary problems, or of candidates of a search
MOST_CURVES = 6  # binary problems whose convergence is drawn: those with the largest gaps


def _by_problem(model: MarginClassifier, values: Any) -> list[tuple[str, Any]]:
    """Certificates or traces with the names of their binary problems."""
    names = problem_names(model)
    return list(zip(names, values if len(names) > 1 else [values], strict=True))


# The certificate


def certificate(model: MarginClassifier) -> Html:
    """The section with the certificate, in words and for each binary problem."""
    sentence = str(model.certificate_)
    content = [
        paragraph(sentence[:1].upper() + sentence[1:] + ".", class_="lead"),
        paragraph(_why_it_stopped(model)),
    ]
    named = _by_problem(model, model.certificate_)
    measured = [(name, each) for name, each in named if not np.isnan(each.primal)]
    if measured:
        worst = sorted(measured, key=lambda item: -item[1].relative_gap if item[1] else -np.inf)[:MOST_ROWS]
        rows = [
            (name, number(each.primal), number(each.dual), percent(each.relative_gap) if each else NOT_KNOWN)
            for name, each in worst
        ]
        caption = "Value reached, and the bound that no model can beat"
        if len(rows) < len(named):
            caption += f": the {len(rows)} loosest of {len(named):,} binary problems"
        content.append(table(caption, ("binary problem", "reached", "bound", "relative gap"), rows))
    if any(each for _, each in named):
        note = (
            "The certificate is a proof about the training problem; it holds whatever the solver did. It does not "
            "promise a small error on new samples."
        )
        content.append(paragraph(note, class_="soft"))
    return section("Certificate", *content)


def _why_it_stopped(model: MarginClassifier) -> str:
    stopped = Counter(STOPPED.get(why, why) for why in np.atleast_1d(model.stopped_).tolist())
    if len(stopped) == 1:
        return f"Training stopped: {next(iter(stopped))}."
    why = "; ".join(f"{reason} ({count(n, 'binary problem')})" for reason, n in stopped.most_common())
    return f"Training stopped: {why}."


# Convergence


def convergence(model: MarginClassifier) -> Html:
    """The section with the curves of the relative duality gap and of the error on the held-out samples."""
    trace = model.trace_
    display = ConvergenceDisplay(trace if isinstance(trace, Traces) else {"": trace})
    gaps = {name: known_gap(one) for name, one in display.traces.items()}
    content: list[Html] = []
    drawn = {name: gap for name, gap in gaps.items() if np.isfinite(gap).sum() > 1}
    largest = sorted(drawn, key=lambda name: -drawn[name][np.isfinite(drawn[name])][-1])[:MOST_CURVES]
    if largest:
        shown = {name: gaps[name] for name in largest}
        content.append(_curves(display, shown, "Relative duality gap", logarithmic=True))
        if len(display.traces) > len(largest):
            text = f"The {len(largest)} binary problems with the largest gaps, of {len(gaps):,}."
            content.append(paragraph(text, class_="soft"))
    errors = {name: one.column("holdout_error") for name, one in display.traces.items()}
    held = {name: error for name, error in errors.items() if np.isfinite(error).sum() > 1}
    if held:
        first = [name for name in largest if name in held] or list(held)[:MOST_CURVES]
        shown = {name: held[name] for name in first}
        content.append(_curves(display, shown, "Error on the held-out samples", logarithmic=False))
        if len(held) > len(first):
            content.append(paragraph(f"{len(first)} of {len(held):,} binary problems are shown.", class_="soft"))
    if not content:
        known = any(np.isfinite(gap).any() for gap in gaps.values())
        measured = "measured only once, at the end" if known else "not measured"
        content.append(paragraph(f"The relative duality gap was {measured}, so there is no curve to draw."))
    content.append(_last_checks(model, trace))
    return section("Convergence", *content)


def _curves(display: ConvergenceDisplay, shares: Mapping[str, Vector], title: str, *, logarithmic: bool) -> Html:
    """A figure with a curve for each run; on a logarithmic axis with `tol` as a dashed line."""
    series = {}
    for name, share in shares.items():
        known = np.isfinite(share)
        series[name] = display.traces[name].column(display.x)[known].astype(np.float64), share[known]
    unit = " in seconds" if display.x == "seconds" else ""
    last = ", ".join(f"{name} {percent(share[-1])}".strip() for name, (_, share) in series.items())
    tol = display._tol if logarithmic else None
    picture = curves(
        series,
        label=LABELS[display.x] + unit,
        described=f"{title} against {LABELS[display.x]}; at the end: {last}",
        logarithmic=logarithmic,
        level=tol,
    )
    key = [element("li", name, style=f"--colour: var(--line{k})") for k, name in enumerate(series) if name]
    caption = f"{title} (dashed: tol, {percent(tol)})" if tol else title
    return element("figure", picture, element("figcaption", caption, element("ul", *key, class_="key") if key else ""))


def _last_checks(model: MarginClassifier, trace: Trace | Traces) -> Html:
    """A table of where each fit ended; of many, of those that took the most iterations."""
    ends = [(name, one[-1], len(one)) for name, one in _by_problem(model, trace) if len(one)]
    if not ends:
        return Html("")
    longest = sorted(ends, key=lambda item: -item[1].iteration)[:MOST_ROWS]
    rows = [(name, f"{row.iteration:,}", f"{checks:,}", seconds(row.seconds)) for name, row, checks in longest]
    caption = "End of the fit" if len(ends) == 1 else "End of the fit of each binary problem"
    if len(ends) > len(rows):
        caption += f": the {len(rows)} longest of {len(ends):,}"
    return table(caption, ("binary problem", "iterations", "checks", "time"), rows)


# The search


def search(estimator: Any) -> Html:
    """The section with the candidates of a search; nothing for a model that was not chosen by one."""
    if not isinstance(estimator, CrossValidatedClassifier):
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
    chosen, candidates = _named_values(estimator.best_params_), count(len(results["params"]), "candidate")
    folds = count(estimator.scores_.shape[-1], "fold")
    return section(
        "Parameter search",
        paragraph(f"{chosen}: chosen from {candidates} by cross-validation with {folds}."),
        table("The chosen candidate and the best of the others", _SEARCH_HEAD, rows),
    )


_SEARCH_HEAD = ("candidate", "mean score", "standard error", "")


def _named_values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} = {number(value)}" for name, value in values.items())


# The ledger


def ledger(model: MarginClassifier) -> Html:
    """The section with what the fit read."""
    unit = "Kernel evaluations" if model.kernel_evaluations_ else "Entries of the data that were read"
    return section("Ledger", table(f"{unit}, by purpose", ("purpose", "count"), _reads(model.reads_)))


def _reads(reads: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    learning, dense = reads.get("learning"), reads.get("learning, dense count")
    for purpose, n in reads.items():
        if purpose != "learning, dense count" and (n or purpose == "learning"):
            yield PURPOSES.get(purpose, purpose), f"{n:,}"
        if purpose == "learning" and dense not in (None, learning):
            yield "to learn, with the zeros that are not stored", f"{dense:,}"
