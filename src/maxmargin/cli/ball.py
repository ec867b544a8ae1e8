"""`maxmargin ball`: the smallest ball around the rows of a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from maxmargin.cli.common import (
    AsJson,
    Budget,
    CacheSize,
    Coef0,
    Data,
    Degree,
    Gamma,
    MaxIter,
    MaxTime,
    Quiet,
    as_json,
    errors_in_a_line,
    given,
    number_or_name,
    one_of,
    position_or_name,
    refuse,
    result_path,
    say,
    source_name,
)
from maxmargin.cli.progress import ShowProgress
from maxmargin.cli.summary import STOPPED, share
from maxmargin.data import atomic_write, load_table
from maxmargin.estimators import EnclosingBall
from maxmargin.estimators.ball import BALL_KERNELS, BALL_SOLVERS
from maxmargin.solvers import Solver, SublinearBall

_CHOICES = {"kernel": BALL_KERNELS, "solver": ("auto", *BALL_SOLVERS)}


@errors_in_a_line
def ball(
    data: Data,
    nu: Annotated[float, typer.Option(help="The share of the rows that may stay outside.")] = 0.0,
    kernel: Annotated[
        str | None,
        typer.Option(
            callback=one_of(_CHOICES), metavar="|".join(_CHOICES["kernel"]), help="A ball in the space of a kernel."
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
        float | None, typer.Option(help="Of sublinear_ball: by how much the squared radius may be too large.")
    ] = None,
    tol: Annotated[
        float | None, typer.Option(help="Stop at this relative gap.", show_default="0.001 for core_set")
    ] = None,
    max_iter: MaxIter = None,
    max_time: MaxTime = None,
    budget: Budget = None,
    n_jobs: Annotated[int | None, typer.Option(help="Threads; -1: all processors.")] = None,
    random_state: Annotated[int | None, typer.Option(help="The seed: the same one gives the same ball.")] = None,
    label_column: Annotated[
        str | None,
        typer.Option(
            help="A column of a CSV or .npy file to leave out: first, last, a name in the header, a position from 0.",
            show_default="none: all columns are features",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="The .npz file to write.", show_default="DATA with .ball.npz, here")
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Find the smallest ball around the rows of DATA, and say how small it provably is. Ctrl-C keeps the best so far.

    The file written holds the radius, its bounds, and the centre; with a kernel, the rows whose mean the centre is.
    """
    target = result_path(output, "--output", data, ".ball.npz")
    of_kernel = {"gamma": number_or_name(gamma), "degree": degree, "coef0": coef0, "cache_size": cache_size}
    if kernel is None:
        refuse(of_kernel, "needs --kernel")
    if solver != "sublinear_ball":
        refuse({"eps": eps}, "needs --solver sublinear_ball")
    elif kernel is not None:
        raise ValueError("--solver sublinear_ball reads columns, which a kernel has not; drop it, or --kernel")
    algorithm: str | Solver = solver if eps is None else SublinearBall(eps=eps)
    X = _rows(data, label_column)
    model = EnclosingBall(
        nu,
        kernel=kernel,
        solver=algorithm,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        budget=budget,
        n_jobs=n_jobs,
        random_state=random_state,
        **given(of_kernel),
    )
    if not quiet:
        model.set_callbacks(ShowProgress())
    started = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - started
    with atomic_write(target) as file:
        np.savez(file, **_arrays(model))
    about = {"output": str(target), "data": source_name(data), "seconds": seconds, **_summary(model, X)}
    if json:
        print(as_json(about))
    elif not quiet:
        for name, text in _lines(about):
            print(f"{name:<15}{text}")
    if model.stopped_ == "interrupted":
        say(f"interrupted: the best ball so far was kept and is in {target}")
        raise typer.Exit(130)


def _rows(path: Path, label_column: str | None) -> Any:
    """The rows of a file; labels that its format has, or that stand in the column, are left out."""
    table = load_table(path, label_column=None if label_column is None else position_or_name(label_column))
    if table.y is not None:
        where = f", {table.labels_in}," if table.labels_in else ""
        say(f"note: the labels of {source_name(path)}{where} are left out")
    return table.X


def _arrays(model: EnclosingBall) -> dict[str, Any]:
    common = {name: getattr(model, f"{name}_") for name in ("radius", "radius_lower", "radius_upper", "offset")}
    if model.kernel is None:
        return {**common, "center": model.center_}
    parameters = {"kernel": model.kernel, "gamma": model.gamma_, "degree": model.degree, "coef0": model.coef0}
    return {**common, "support": model.support_, "dual_coef": model.dual_coef_, **parameters}


def _summary(model: EnclosingBall, X: Any) -> dict[str, Any]:
    names = ("radius", "radius_lower", "radius_upper", "entries_read", "kernel_evaluations", "reads", "n_iter")
    return {
        "rows": X.shape[0],
        "features": X.shape[1],
        "stored": int(X.size),  # of a sparse matrix, this counts what it stores
        **{name: getattr(model, f"{name}_") for name in names},
        "certificate": str(model.certificate_),
        "n_outside": int(np.count_nonzero(model.predict(X) < 0)),
        "n_support": int(model.support_.size),
        "stopped": model.stopped_,
        "solver": model.solver_,
        "promise": model.promise_,
    }


def _lines(about: dict[str, Any]) -> list[tuple[str, str]]:
    kernel = about["kernel_evaluations"] > 0
    rows = f"{about['rows']:,} rows, {about['features']:,} features, {about['stored']:,} entries stored"
    read = f"{about['entries_read']:,} entries{share(about)}"
    return [
        ("data", f"{about['data']}: {rows}"),
        ("computed", f"{about['kernel_evaluations']:,} kernel evaluations to learn")
        if kernel
        else ("read to learn", read),
        ("reads", ", ".join(f"{purpose} {count:,}" for purpose, count in about["reads"].items())),
        ("radius", f"{about['radius']:.6g}"),
        ("least possible", f"{about['radius_lower']:.6g} to {about['radius_upper']:.6g}"),
        ("certificate", about["certificate"]),
        ("outside", f"{about['n_outside']:,} rows"),
        ("support", f"{about['n_support']:,} rows"),
        ("stopped", STOPPED.get(about["stopped"], about["stopped"])),
        ("work", f"{about['n_iter']:,} iterations of {about['solver']} in {about['seconds']:.2f} s"),
        ("ball", about["output"]),
    ]
