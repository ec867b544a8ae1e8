"""`maxmargin train`: train a model on a data file, or on many files that the workers of a cluster open."""

from __future__ import annotations

import time
from glob import has_magic
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from maxmargin.cli.common import (
    DATA_HELP,
    AbsentChunksOption,
    AsJson,
    Budget,
    CacheSize,
    Coef0,
    Degree,
    Gamma,
    Header,
    LabelColumn,
    Labels,
    MaxIter,
    MaxTime,
    Quiet,
    as_json,
    check_can_write,
    check_column_names,
    check_features,
    error_rate,
    given,
    number_or_name,
    one_line_errors,
    one_of,
    read,
    refuse,
    refuse_same_stream,
    refuse_without_kernel,
    result_path,
    say,
    source_name,
    warn_if_loose,
)
from maxmargin.cli.progress import ShowProgress
from maxmargin.cli.samples import LOCAL, cluster_samples, local_samples
from maxmargin.cli.summary import lines, summary
from maxmargin.core.optional import import_optional
from maxmargin.data import atomic_write, required_labels
from maxmargin.data.stores import store_kind
from maxmargin.display import ConvergenceDisplay, SearchDisplay
from maxmargin.estimators import SVC, SVCCV, LinearSVC, LinearSVCCV, save_model
from maxmargin.kernels.functions import KERNELS
from maxmargin.problems import LOSSES
from maxmargin.solvers import KERNEL_SOLVERS, SOLVERS

_CHOICES = {
    "kernel": tuple(name for name in KERNELS if name != "precomputed"),  # the command cannot read kernel matrices
    "solver": tuple(dict.fromkeys(("auto", *SOLVERS, *KERNEL_SOLVERS))),
    "loss": tuple(LOSSES),
    "class_weight": ("balanced",),
    "multi_class": ("ovo", "ovr"),
}
CV_KERNEL_OPTIONS = ("degree", "coef0", "cache_size")  # the kernel options that a search does not choose

_one_of_the_choices = one_of(_CHOICES)


@one_line_errors
def train(
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA",
            help=f"{DATA_HELP} With --dask, any number of files, stores, and patterns such as 'data-*.parquet'.",
        ),
    ],
    slack: Annotated[
        float | None, typer.Option(help="The mean slack, for rows scaled to norm at most 1; in place of --C.")
    ] = None,
    C: Annotated[
        float | None, typer.Option("--C", help="The weight of the losses.", show_default="1 without --slack")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            callback=_one_of_the_choices,
            metavar="|".join(_CHOICES["kernel"]),
            help="Train a kernel SVM (SVC).",
            show_default="none: LinearSVC",
        ),
    ] = None,
    gamma: Gamma = None,
    degree: Degree = None,
    coef0: Coef0 = None,
    cache_size: CacheSize = None,
    multi_class: Annotated[
        str | None,
        typer.Option(
            callback=_one_of_the_choices,
            metavar="ovo|ovr",
            help="With a kernel: one model for each pair of classes, or one for each class against the rest.",
            show_default="ovo",
        ),
    ] = None,
    solver: Annotated[
        str, typer.Option(callback=_one_of_the_choices, metavar="|".join(_CHOICES["solver"]), help="The algorithm.")
    ] = "auto",
    loss: Annotated[
        str | None,
        typer.Option(
            callback=_one_of_the_choices,
            metavar="|".join(_CHOICES["loss"]),
            help="The loss function.",
            show_default="squared_hinge; with --slack hinge",
        ),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option(
            "--cv",
            metavar="FOLDS",
            help="Choose C, and gamma if the kernel has one, by cross-validation with this number of folds.",
        ),
    ] = None,
    budget: Budget = None,
    max_time: MaxTime = None,
    max_iter: MaxIter = None,
    tol: Annotated[
        float | None,
        typer.Option(help="The relative duality gap at which to stop.", show_default="the default of the solver"),
    ] = None,
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping", help="Hold out a tenth of the rows, and stop when the error on them no longer improves."
        ),
    ] = False,
    intercept: Annotated[bool, typer.Option("--intercept/--no-intercept", help="Whether to fit an intercept.")] = True,
    intercept_scaling: Annotated[
        float | None, typer.Option(help="Penalise the intercept like the weight of a feature with this constant value.")
    ] = None,
    certify: Annotated[
        bool, typer.Option("--certify/--no-certify", help="Whether to certify the model on all of DATA.")
    ] = True,
    class_weight: Annotated[
        str | None,
        typer.Option(
            callback=_one_of_the_choices, metavar="balanced", help="Weight classes inversely to their frequencies."
        ),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Rows with labels on which to measure the test error.")] = None,
    model: Annotated[
        Path | None,
        typer.Option(help="The model file to write.", show_default="the name of DATA with .mm, in the current folder"),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save the run in this folder about every ten seconds. After a crash, the same command continues it.",
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS|local",
            help="Train on a Dask cluster, whose workers open DATA. Give the address of its scheduler, such as "
            "tcp://10.0.0.1:8786, or local to start a process for each processor of this machine.",
        ),
    ] = None,
    n_jobs: Annotated[
        int | None,
        typer.Option(
            help="The maximum number of threads; with --dask local, of processes.", show_default="as many as pay off"
        ),
    ] = None,
    random_state: Annotated[int | None, typer.Option(help="The seed. The same seed gives the same model.")] = None,
    label_column: LabelColumn = "last",
    labels: Labels = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
    plot: Annotated[
        Path | None,
        typer.Option(help="Plot the convergence, with a certificate at each check. With --cv, plot the scores."),
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a model on DATA and certify how good it is. Ctrl-C keeps the best model so far."""
    first, several = data[0], len(data) > 1 or (dask is not None and has_magic(str(data[0])))
    if several and dask is None:
        raise ValueError(f"{len(data)} files were given; to train on several files, use --dask")
    if several and model is None:
        raise ValueError("DATA is not a single file to name the result after; give a name with --model FILE")
    target = result_path(model, "--model", first, ".mm")
    if plot is not None:
        check_can_write(plot, first)
        _check_can_plot(plot, something=certify or early_stopping or cv is not None)
    kernel_options = {
        "gamma": number_or_name(gamma),
        "degree": degree,
        "coef0": coef0,
        "cache_size": cache_size,
        "multi_class": multi_class,
    }
    linear_options = {"loss": loss, "intercept_scaling": intercept_scaling}
    if C is not None and slack is not None:
        raise ValueError(f"both --C {C!r} and --slack {slack!r} were given: give one, as each determines the other")
    if kernel is None:
        refuse_without_kernel(kernel_options, cached_blocks=dask is None and store_kind(first) is not None)
    else:
        refuse(
            linear_options,
            "cannot be used with --kernel, where the loss is the hinge and the intercept is not regularised",
        )
    both: dict[str, Any] = {
        "fit_intercept": intercept,
        "tol": tol,
        "max_time": max_time,
        "class_weight": class_weight,
        "n_jobs": n_jobs if dask is None else None,
        "random_state": random_state,
    }
    # With --cv, the search chooses these, or its fits have no such option.
    without_cv: dict[str, Any] = {
        "C": C,
        "slack": slack,
        "solver": None if solver == "auto" else solver,
        "max_iter": max_iter,
        "budget": budget,
        "early_stopping": early_stopping or None,
    }
    if cv is not None:
        refuse_with_cv = {**without_cv, "gamma": gamma, "multi_class": multi_class}
        refuse_with_cv |= {"intercept_scaling": intercept_scaling, "no_certify": None if certify else True}
        refuse(refuse_with_cv, "cannot be used with --cv, which chooses C and gamma and solves to --tol")
        if cv < 2:
            raise ValueError(f"--cv {cv}: give two folds or more")
        own = {"loss": loss} if kernel is None else {name: kernel_options[name] for name in CV_KERNEL_OPTIONS}
        parameters = {**given(own), **both, "cv": cv}
    else:
        own = linear_options if kernel is None else kernel_options
        certified = "checks" if certify and plot is not None else certify
        parameters = {**given(own), **given(without_cv), **both, "certify": certified}
    if kernel is not None:
        parameters["kernel"] = kernel
    name = ("LinearSVC" if kernel is None else "SVC") + ("" if cv is None else "CV")
    if dask is None:
        if test is not None:
            refuse_same_stream(first, test)
        reading = {"labels": labels, "absent_chunks": absent_chunks, "cache_size": cache_size}
        opened = local_samples(first, label_column, header, **reading)
    else:
        elsewhere = {"labels": labels, "header": header, "n_jobs": None if dask == LOCAL else n_jobs}
        elsewhere["absent_chunks"] = None if absent_chunks == "error" else absent_chunks
        refuse(elsewhere, "cannot be used with --dask, whose workers read DATA")
        opened = cluster_samples(dask, data, label_column, processes=n_jobs, quiet=quiet)
    with opened as samples:
        estimator = samples.prepare(name, parameters)
        if test is not None:
            tested = read(test, label_column, header, samples.n_features, absent_chunks=absent_chunks)
            check_features(test, tested, samples.n_features, f"{samples.name} has")
            check_column_names(test, tested, samples.feature_names)
            y_test = required_labels(source_name(test), tested)
        if cv is not None or not quiet:
            estimator.set_callbacks(ShowProgress(shown=not quiet))
        started = time.perf_counter()
        samples.fit(estimator, checkpoint)
        seconds = time.perf_counter() - started
        fitted = samples.local(estimator if cv is None else estimator.best_estimator_)
        notes = {**samples.notes(fitted), "seconds": seconds, **({} if cv is None else chosen(estimator))}
    if test is not None:
        error = error_rate(fitted.predict(tested.X), y_test)
        notes |= {"test_data": source_name(test), "test_rows": y_test.size, "test_error": error}
    save_model(fitted, target, notes=notes)
    if plot is not None:
        _draw(estimator, plot, notes["stored"])
    about = {"model": str(target), **summary(fitted, notes)}
    if json:
        print(as_json(about))
    elif not quiet:
        print(*lines(about), f"{'model':<15}{target}", sep="\n")
    elif certify:
        warn_if_loose(fitted.certificate_)
    if "interrupted" in (*np.atleast_1d(fitted.stopped_), getattr(estimator, "search_stopped_", "")):
        going_on = "" if checkpoint is None else f"; the same command continues from {checkpoint}"
        say(f"interrupted: the best model so far was kept and is in {target}{going_on}")
        raise typer.Exit(130)


def chosen(search: LinearSVCCV | SVCCV) -> dict[str, Any]:
    """Return what a search has chosen, and its score, as notes for the model file."""
    table, best = search.cv_results_, search.best_index_
    return {
        **{f"cv_{name}": value for name, value in search.best_params_.items()},
        "cv_accuracy": search.best_score_,
        "cv_standard_error": float(table["standard_error"][best]),
        "cv_folds": search.scores_.shape[-1],
        "cv_cells": len(table["params"]),
        "cv_left_early": int(table["left_early"].sum()),
        "cv_stopped": search.search_stopped_,
        **edges(search),
    }


def edges(search: LinearSVCCV | SVCCV) -> dict[str, str]:
    """Find the chosen parameters that have the smallest or the largest value of the grid."""
    table, found = search.cv_results_, {}
    for name, value in search.best_params_.items():
        tried = np.unique(table[f"param_{name}"])
        if tried.size > 1 and value in (tried[0], tried[-1]):
            found[f"cv_{name}_edge"] = "smallest" if value == tried[0] else "largest"
    return found


def _check_can_plot(path: Path, *, something: bool) -> None:
    if not something:
        raise ValueError("--plot has nothing to draw with --no-certify; drop that, or add --early-stopping")
    matplotlib = import_optional("matplotlib", "--plot")
    known = import_optional("matplotlib.backend_bases", "--plot").FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:] not in known:
        raise ValueError(f"--plot {path}: the name must end in one of .{', .'.join(known)}")
    matplotlib.use("agg")  # draw to the file, without a window


def _draw(estimator: LinearSVC | SVC | LinearSVCCV | SVCCV, path: Path, stored: int) -> None:
    display: SearchDisplay | ConvergenceDisplay
    if isinstance(estimator, (LinearSVCCV, SVCCV)):
        display = SearchDisplay.from_estimator(estimator)
    else:
        display = ConvergenceDisplay.from_estimator(estimator, stored=stored)
    with atomic_write(path) as file:
        display.figure_.savefig(file, format=path.suffix[1:])
