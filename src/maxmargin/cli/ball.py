"""`maxmargin ball`: the smallest ball around the rows of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from maxmargin.cli.common import (
    AbsentChunksOption,
    AsJson,
    Budget,
    CacheSize,
    Coef0,
    Data,
    Degree,
    Gamma,
    Header,
    MaxIter,
    MaxTime,
    Quiet,
    as_json,
    given,
    number_or_name,
    one_line_errors,
    one_of,
    read,
    refuse,
    refuse_without_kernel,
    result_path,
    say,
    source_name,
    stored_entries,
    warn_if_loose,
)
from maxmargin.cli.progress import ShowProgress
from maxmargin.cli.summary import lines, summary
from maxmargin.core.source import is_source
from maxmargin.engine.solver import AnySolver
from maxmargin.estimators import EnclosingBall, save_model
from maxmargin.estimators.ball import BALL_KERNELS, BALL_SOLVERS
from maxmargin.estimators.validation import keep_feature_names
from maxmargin.solvers import SublinearBall

_CHOICES = {"kernel": BALL_KERNELS, "solver": ("auto", *BALL_SOLVERS)}


@one_line_errors
def ball(
    data: Data,
    nu: Annotated[float, typer.Option(help="The share of the rows that may lie outside the ball.")] = 0.0,
    kernel: Annotated[
        str | None,
        typer.Option(
            callback=one_of(_CHOICES),
            metavar="|".join(_CHOICES["kernel"]),
            help="Find the ball in the feature space of this kernel.",
        ),
    ] = None,
    gamma: Gamma = None,
    degree: Degree = None,
    coef0: Coef0 = None,
    cache_size: CacheSize = None,
    solver: Annotated[
        str, typer.Option(callback=one_of(_CHOICES), metavar="|".join(_CHOICES["solver"]), help="The algorithm.")
    ] = "auto",
    eps: Annotated[
        float | None,
        typer.Option(
            help="For sublinear_ball: the largest excess of the squared radius, in units of the largest squared norm."
        ),
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="The relative gap at which to stop.", show_default="0.001 for core_set")
    ] = None,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    budget: Budget = None,
    n_jobs: Annotated[
        int | None, typer.Option(help="The maximum number of threads.", show_default="as many as pay off")
    ] = None,
    random_state: Annotated[int | None, typer.Option(help="The seed. The same seed gives the same ball.")] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="A column of a CSV, .npy, Parquet or Arrow file to leave out: first, last, a name, a position from 0.",
            show_default="none: all columns are features",
        ),
    ] = None,
    header: Header = None,
    absent_chunks: AbsentChunksOption = "error",
    model: Annotated[
        Path | None,
        typer.Option(
            help="The model file to write.", show_default="the name of DATA with .ball.mm, in the current folder"
        ),
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the smallest ball around the rows of DATA and certify its radius. Ctrl-C keeps the best ball so far.

    The output is a model for `maxmargin predict`, which predicts 1 for rows inside the ball and -1 for rows outside.
    """
    target = result_path(model, "--model", data, ".ball.mm")
    kernel_options = {"gamma": number_or_name(gamma), "degree": degree, "coef0": coef0, "cache_size": cache_size}
    if solver != "sublinear_ball":
        refuse({"eps": eps}, "needs --solver sublinear_ball")
    elif kernel is not None:
        raise ValueError(
            "--solver sublinear_ball reads columns of features and cannot be used with --kernel; leave out one of them"
        )
    algorithm: str | AnySolver = solver if eps is None else SublinearBall(eps=eps)
    table = read(data, label_column, header, absent_chunks=absent_chunks, cache_size=cache_size)
    if kernel is None:
        refuse_without_kernel(kernel_options, cached_blocks=is_source(table.X))
    if table.y is not None and not quiet:
        which = f" ({table.labels_in})" if table.labels_in else ""
        say(f"note: the labels of {source_name(data)}{which} are left out")
    X = table.X
    estimator = EnclosingBall(
        nu,
        kernel=kernel,
        solver=algorithm,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        budget=budget,
        n_jobs=n_jobs,
        random_state=random_state,
        **(given(kernel_options) if kernel is not None else {}),
    )
    if not quiet:
        estimator.set_callbacks(ShowProgress())
    started = time.perf_counter()
    estimator.fit(X)
    if table.names is not None:
        keep_feature_names(estimator, table.names)
    notes: dict[str, Any] = {
        "data": source_name(data),
        "rows": X.shape[0],
        "stored": stored_entries(X),
        "seconds": time.perf_counter() - started,
        "n_outside": int(np.count_nonzero(estimator.predict(X) < 0)),
    }
    save_model(estimator, target, notes=notes)
    about = {"model": str(target), **summary(estimator, notes)}
    if json:
        print(as_json(about))
    elif not quiet:
        print(*lines(about), f"{'model':<15}{target}", sep="\n")
    else:
        warn_if_loose(estimator.certificate_)
    if estimator.stopped_ == "interrupted":
        say(f"interrupted: the best ball so far was kept and is in {target}")
        raise typer.Exit(130)
