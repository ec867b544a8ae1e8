"""The summary of a model, as JSON for programs and as lines of text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from maxmargin.estimators.persistence.model_file import describe
from maxmargin.estimators.words import PURPOSES, STOPPED, count, label_text
from maxmargin.solvers import KERNEL_SOLVERS, SOLVERS

CHOSEN = ("C", "gamma")  # the parameters that a search of the command chooses


def summary(model: Any, notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return all fields of a model except its coefficients in a form for JSON, for `--json` and :func:`lines`."""
    about = describe(model)
    certificates = [model.certificate_] if len(about["problems"]) == 1 else model.certificate_
    for problem, certificate in zip(about["problems"], certificates, strict=True):
        problem["certificate"] |= {
            "relative_gap": certificate.relative_gap if certificate else None,
            "sentence": str(certificate),
        }
    if "classes" in about:
        labels = about["classes"]["values"]
        for problem, which in zip(about["problems"], model._strategy.classes_by_model, strict=True):
            # One class against the rest, or two classes against each other.
            problem["class"] = labels[which[0]] if len(which) == 1 else [labels[k] for k in which]
    return {**notes, **about, "certificate": str(model.certificate_), "n_iter": int(np.max(model.n_iter_))}


def lines(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the summary as text: data, cost, certificate, and why the fit ended."""
    yield _line(
        "data",
        f"{about['data']}: {count(about['rows'], 'row')}, " if "data" in about else "",
        count(about["n_features_in"], "feature"),
        f", {about['stored']:,} entries stored" if "stored" in about else "",
        f"; labels: {about['labels_in']}" if about.get("labels_in") else "",
    )
    if "feature_scales" in about:
        yield _line("scales", _bad_scales(about["feature_scales"]))
    if "workers" in about:
        yield _line("cluster", f"{count(about['workers'], 'worker')}, {count(about['partitions'], 'partition')}")
    if "cv_folds" in about:
        yield _line("chosen", _chosen(about))
        if edges := {name: about[f"cv_{name}_edge"] for name in CHOSEN if f"cv_{name}_edge" in about}:
            yield _line("at the edge", _at_the_edge(edges, kernel=bool(about.get("kernel"))))
    if about.get("kernel"):
        parameters = ", ".join(f"{name} {_short(value)}" for name, value in about["kernel"]["fields"].items())
        yield _line("kernel", about["kernel"]["name"], f", {parameters}" if parameters else "")
        yield _line("computed", f"{about['kernel_evaluations']:,} kernel evaluations to learn")
    else:
        yield _line("read to learn", f"{about['entries_read']:,} entries", share(about))
    besides = {why: count for why, count in about["reads"].items() if not why.startswith("learning")}
    chunks, fetched = besides.pop("chunks fetched", 0), besides.pop("bytes fetched", 0)
    if text := reads(besides):
        yield _line("other reads", text)  # a budget does not limit these
    if chunks:
        yield _line("fetched", f"{count(chunks, 'chunk')}, {fetched:,} bytes")
    yield from _ball(about) if "radius" in about else _classifier(about)
    took = f" in {about['seconds']:.2f} s" if "seconds" in about else ""
    loss = f", loss {about['loss']}" if "loss" in about else ""
    solver = ({} if "radius" in about else KERNEL_SOLVERS if about.get("kernel") else SOLVERS).get(about["solver"])
    unit = ("pass", "passes") if solver is not None and solver.visits_samples else ("iteration",)
    yield _line("work", f"{count(about['n_iter'], *unit)} of {about['solver']}{loss}{took}")
    if "training_error" in about:
        part = "all" if about["training_error_rows"] == about["rows"] else f"{about['training_error_rows']:,} of the"
        yield _line("training error", f"{about['training_error']:.2%} of {part} {about['rows']:,} rows")
    if "test_error" in about:
        yield _line("test error", f"{about['test_error']:.2%} of {about['test_rows']:,} rows of {about['test_data']}")


def _bad_scales(factor: float) -> str:
    """Advice for features of very different scales.

    >>> print(_bad_scales(3.2e8))
    the standard deviations of the features differ by a factor of 3e+08, which usually harms the model: scale them first
    """
    return (
        f"the standard deviations of the features differ by a factor of {factor:.0e}, which usually harms the model: "
        "scale them first"
    )


def _chosen(about: Mapping[str, Any]) -> str:
    parameters = ", ".join(f"{name} {_short(about[f'cv_{name}'])}" for name in CHOSEN if f"cv_{name}" in about)
    score = f"accuracy {about['cv_accuracy']:.2%} +- {about['cv_standard_error']:.2%}"
    early = f", {about['cv_left_early']:,} left early" if about["cv_left_early"] else ""
    stopped = {"max_time": "; time limit reached", "interrupted": "; interrupted"}.get(about["cv_stopped"], "")
    compared = f"over {count(about['cv_folds'], 'fold')}, of {count(about['cv_cells'], 'cell')}"
    return f"{parameters}: {score} {compared}{early}{stopped}"


def _at_the_edge(edges: Mapping[str, str], *, kernel: bool) -> str:
    """Say what to do if a chosen value is the smallest or the largest value tried.

    >>> print(_at_the_edge({"C": "largest"}, kernel=False))
    C is the largest value tried, and a larger one may be better: scale the features, or try more with
    LinearSVCCV(Cs=...) in Python
    """
    where = " and ".join(f"{name} is the {edge} value tried" for name, edge in edges.items())
    beyond = {"smallest": "smaller", "largest": "larger"}
    better = " or ".join(dict.fromkeys(beyond[edge] for edge in edges.values()))
    parameters = ", ".join(f"{name}s=..." for name in edges)
    search = "SVCCV" if kernel else "LinearSVCCV"
    return (
        f"{where}, and a {better} one may be better: scale the features, or try more with {search}({parameters}) in "
        "Python"
    )


def _classifier(about: Mapping[str, Any]) -> Iterator[str]:
    problems = about["problems"]
    if len(problems) == 1:
        numbers = (f"{name} {_short(problems[0][name])}" for name in ("margin", "slack", "C"))
        yield _line("reached", ", ".join(numbers))
    else:
        two = isinstance(problems[0]["class"], list)
        yield _line("models", f"{len(problems)}, one for each {'two classes' if two else 'class against the rest'}")
    yield _line("certificate", about["certificate"])
    stopped = Counter(STOPPED.get(problem["stopped"], problem["stopped"]) for problem in problems)
    counted = (
        f"{why} ({count(models, 'model')})" if len(stopped) > 1 else why for why, models in stopped.most_common()
    )
    yield _line("stopped", "; ".join(counted))
    if "shape_fit" in about:
        yield _line("support", f"{about['n_support']:,} vectors of {about['shape_fit'][0]:,} rows")


def _ball(about: Mapping[str, Any]) -> Iterator[str]:
    [problem] = about["problems"]
    nu, bound = about["parameters"]["nu"], f"no ball has less than {_short(about['objective_bound'])}"
    if problem["certificate"]["form"] == "radius":
        yield _line("radius", f"{_short(about['radius'])}; {bound}")
    else:
        yield _line("radius", _short(about["radius"]))
        meaning = f"root mean square distance of the farthest {nu:.6g} of the rows"
        yield _line("objective", f"{_short(about['objective'])}, the {meaning}; {bound}")
    yield _line("certificate", problem["certificate"]["sentence"])
    yield _line("stopped", STOPPED.get(problem["stopped"], problem["stopped"]))
    if "n_outside" in about:
        yield _line("outside", f"{about['n_outside']:,} of {about['rows']:,} rows")
    yield _line("support", f"{about['n_support']:,} rows")


def details(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a model file that :func:`lines` leaves out."""
    yield _line("written by", f"maxmargin {about['library_version']}, format {about['format_version']}")
    if "classes" in about:
        yield _line("classes", ", ".join(label_text(about["classes"]["values"])), f" ({about['classes']['type']})")
    if about["feature_names_in"] is not None:
        yield _line("features", ", ".join(about["feature_names_in"]))
    given = {name: value for name, value in about["parameters"].items() if value is not None}
    yield _line("parameters", ", ".join(f"{name}={value!r}" for name, value in given.items()))
    yield _line("reads", reads(about["reads"]))
    if "scale" in about:
        zero = f"; rows that are all zero: {_short(about['n_zero_rows'])}" if "n_zero_rows" in about else ""
        yield _line("scale", _short(about["scale"]), zero)
    yield _line("checks", ", ".join(f"{trace['checks']:,}" for trace in about["traces"]))
    if about["n_support"] is not None and "classes" in about:
        yield _line("on the margin", f"{about['n_support']:,} samples")
    for promise in (problem["promise"] for problem in about["problems"] if problem["promise"]):
        yield _line("promise", ", ".join(f"{name} {_short(value)}" for name, value in promise.items()))
    for name in about:
        if name not in _SHOWN:
            yield _line(name, about[name])


_SHOWN = {
    *("data", "rows", "stored", "seconds", "test_error", "test_rows", "test_data", "format", "format_version"),
    *("labels_in", "training_error", "training_error_rows", "n_outside", "radius", "objective", "objective_bound"),
    *("offset", "sq_center", "center_vectors"),
    *("library_version", "estimator", "parameters", "classes", "n_features_in", "feature_names_in", "problems"),
    *("traces", "n_support", "n_iter", "entries_read", "kernel_evaluations", "reads", "scale", "n_zero_rows"),
    *("solver", "loss", "kernel", "shape_fit", "vectors", "gamma", "fit_status", "kernel_evaluations_saved"),
    *("n_rows", "learned", "cv_C", "cv_gamma", "cv_accuracy", "cv_standard_error", "cv_folds", "cv_cells"),
    *("cv_left_early", "cv_stopped", "cv_C_edge", "cv_gamma_edge", "workers", "partitions", "feature_scales"),
}


def reads(counts: Mapping[str, int]) -> str:
    """Describe the entries read, by purpose.

    >>> reads({"learning": 1200, "learning, dense count": 4000, "scale": 300, "solution": 0})
    '1,200 to learn (4,000 with zeros that are not stored), 300 to find the norms of the rows'
    """
    dense = counts.get("learning, dense count", counts.get("learning"))
    zeros = f" ({dense:,} with zeros that are not stored)" if dense != counts.get("learning") else ""
    return ", ".join(
        f"{entries:,} {PURPOSES.get(purpose, f'for: {purpose}')}{zeros if purpose == 'learning' else ''}"
        for purpose, entries in counts.items()
        if purpose != "learning, dense count" and (entries or purpose == "learning")
    )


def _line(name: str, *text: object) -> str:
    return f"{name:<15}" + "".join(map(str, text))


def share(about: Mapping[str, Any]) -> str:
    """Describe the entries read for learning as a share of the stored entries."""
    if not about.get("stored"):
        return ""
    share = about["entries_read"] / about["stored"]
    return f", {share:.1%} of what is stored" if share < 1 else f", {share:,.1f} times what is stored"


def _short(number: float | None) -> str:
    return "not known" if number is None else f"{number:,}" if isinstance(number, int) else f"{float(number):.6g}"
