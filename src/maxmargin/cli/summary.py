"""What there is to say of a model, for programs and for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from maxmargin.cli.common import label_text
from maxmargin.estimators.model_file import describe

MOST_PROBLEMS = 10  # of as many binary models all is said; of more, of one
STOPPED = {
    "tol": "the gap reached tol",
    "max_iter": "the iterations allowed were made",
    "max_time": "the time was up",
    "budget": "the budget was spent",
    "early_stopping": "the error on the held out examples no longer improved",
    "callback": "a callback asked for it",
    "interrupted": "it was interrupted; this is the best model until then",
    "finished": "the algorithm came to its end",
}


def summary(model: Any, notes: Mapping[str, Any]) -> dict[str, Any]:
    """All that is known of a model but its coefficients, as JSON has it: for `--json`, and for :func:`lines`."""
    about = describe(model)
    certificates = [model.certificate_] if len(about["problems"]) == 1 else model.certificate_
    labels = about["classes"]["values"]
    for problem, certificate, which in zip(about["problems"], certificates, model._contenders, strict=True):
        # One class against the rest, or two against each other.
        problem["class"] = labels[which[0]] if len(which) == 1 else [labels[k] for k in which]
        problem["certificate"] |= {
            "relative_gap": certificate.relative_gap if certificate else None,
            "sentence": str(certificate),
        }
    return {**notes, **about, "n_iter": int(np.max(model.n_iter_))}


def lines(about: Mapping[str, Any]) -> Iterator[str]:
    """The summary as a person reads it: what was learned from, what it cost, how good it is, why it ended."""
    yield _line(
        "data",
        f"{about['data']}: {about['rows']:,} rows, " if "data" in about else "",
        f"{about['n_features_in']:,} features",
        f", {about['stored']:,} entries stored" if "stored" in about else "",
    )
    kernel = "kernel" in about
    if kernel:
        of = ", ".join(f"{name} {_short(value)}" for name, value in about["kernel"]["fields"].items())
        yield _line("kernel", about["kernel"]["name"], f", {of}" if of else "")
        yield _line("computed", f"{about['kernel_evaluations']:,} kernel evaluations to learn")
    else:
        yield _line("read to learn", f"{about['entries_read']:,} entries", share(about))
    problems = about["problems"]
    if len(problems) > MOST_PROBLEMS:
        yield _line("models", f"{len(problems)}; below, the one whose certificate tells least")
        problems = [max(problems, key=lambda problem: _open(problem["certificate"]))]
    for problem in problems:
        if len(about["problems"]) > 1:
            yield _line("class", " or ".join(label_text(np.atleast_1d(np.array(problem["class"], dtype=object)))))
        numbers = (f"{name} {_short(problem[name])}" for name in ("margin", "slack", "C"))
        yield _line("reached", ", ".join(numbers))
        yield _line("certificate", problem["certificate"]["sentence"])
        yield _line("stopped", STOPPED.get(problem["stopped"], problem["stopped"]))
    if kernel:
        yield _line("support", f"{about['n_support']:,} vectors of {about['shape_fit'][0]:,} rows")
    took = f" in {about['seconds']:.2f} s" if "seconds" in about else ""
    yield _line("work", f"{about['n_iter']:,} iterations of {about['solver']}, loss {about['loss']}{took}")
    if "test_error" in about:
        yield _line("test error", f"{about['test_error']:.2%} of {about['test_rows']:,} rows of {about['test_data']}")


def details(about: Mapping[str, Any]) -> Iterator[str]:
    """The rest of what a model file holds."""
    yield _line("written by", f"maxmargin {about['library_version']}, format {about['format_version']}")
    yield _line("classes", ", ".join(label_text(about["classes"]["values"])), f" ({about['classes']['type']})")
    if about["feature_names_in"] is not None:
        yield _line("features", ", ".join(about["feature_names_in"]))
    given = {name: value for name, value in about["parameters"].items() if value is not None}
    yield _line("parameters", ", ".join(f"{name}={value!r}" for name, value in given.items()))
    yield _line("reads", ", ".join(f"{purpose} {count:,}" for purpose, count in about["reads"].items()))
    zero = f"; rows that are all zero: {_short(about['n_zero_rows'])}" if "n_zero_rows" in about else ""
    yield _line("scale", _short(about["scale"]), zero)
    yield _line("checks", ", ".join(f"{trace['checks']:,}" for trace in about["traces"]))
    if about["n_support"] is not None:
        yield _line("on the margin", f"{about['n_support']:,} examples")
    for promise in (problem["promise"] for problem in about["problems"] if problem["promise"]):
        yield _line("promise", ", ".join(f"{name} {_short(value)}" for name, value in promise.items()))
    for name in about:
        if name not in _KNOWN:
            yield _line(name, about[name])


_KNOWN = {
    *("data", "rows", "stored", "seconds", "test_error", "test_rows", "test_data", "format", "format_version"),
    *("library_version", "estimator", "parameters", "classes", "n_features_in", "feature_names_in", "problems"),
    *("traces", "n_support", "n_iter", "entries_read", "kernel_evaluations", "reads", "scale", "n_zero_rows"),
    *("solver", "loss", "kernel", "shape_fit", "vectors", "gamma", "fit_status", "kernel_evaluations_saved"),
}


def _open(certificate: Mapping[str, Any]) -> float:
    return math.inf if certificate["relative_gap"] is None else float(certificate["relative_gap"])


def _line(name: str, *text: Any) -> str:
    return f"{name:<15}" + "".join(map(str, text))


def share(about: Mapping[str, Any]) -> str:
    """What was read to learn as a share of what is stored, in words."""
    if not about.get("stored"):
        return ""
    share = about["entries_read"] / about["stored"]
    return f", {share:.1%} of what is stored" if share < 1 else f", {share:,.1f} times what is stored"


def _short(number: Any) -> str:
    return "not known" if number is None else f"{number:,}" if isinstance(number, int) else f"{float(number):.6g}"
