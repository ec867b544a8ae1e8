"""`maxmargin sdp`: maximise a semidefinite program from a file."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from maxmargin.cli.common import (
    AsJson,
    MaxTime,
    Quiet,
    as_json,
    check_can_write,
    one_line_errors,
    say,
    source_name,
)
from maxmargin.data import ProgramArrays, atomic_write, read_program
from maxmargin.problems import SemidefiniteProgram
from maxmargin.sdp.bisection import SdpResult, SdpTry
from maxmargin.sdp.program import implied_trace
from maxmargin.sdp.sublinear import METHODS
from maxmargin.solvers import SublinearSdp, solve_sdp

_STOPPED = {
    "tol": "value and bound are within tol",
    "stalled": "no X with a larger value was found, but a larger value is not proved to be impossible",
    "infeasible": "it is proved that no X is feasible",
    "not found": "no X was found that meets the constraints to within eps, but this is not proved to be impossible",
    "max_tries": "the limit max_tries was reached",
    "max_time": "the time limit was reached",
    "budget": "the budget was spent",
    "interrupted": "it was interrupted; this is the best answer found until then",
}


def _known_method(value: str) -> str:
    if value not in METHODS:
        raise typer.BadParameter(f"{value!r} is not one of {', '.join(METHODS)}.")
    return value


@one_line_errors
def sdp(
    problem: Annotated[
        Path,
        typer.Argument(
            metavar="PROBLEM",
            help="An SDPA sparse file (.dat-s), or an .npz file with C, A, b, sense, trace_bound; - is standard input.",
        ),
    ],
    eps: Annotated[
        float, typer.Option(help="The largest violation of a constraint, relative to its norm times the trace bound.")
    ] = 0.05,
    method: Annotated[
        str,
        typer.Option(
            callback=_known_method, metavar="|".join(METHODS), help="The method by which the solver finds each X."
        ),
    ] = METHODS[0],
    constant: Annotated[
        float,
        typer.Option(help="The constant in the number of rounds; 23 in the theorem. The answer is measured anyway."),
    ] = 1.0,
    tol: Annotated[float, typer.Option(help="The relative difference of value and bound at which to stop.")] = 0.01,
    trace_bound: Annotated[
        float | None,
        typer.Option(help="The largest trace of X.", show_default="from PROBLEM, or from its equalities"),
    ] = None,
    exact_trace: Annotated[
        bool, typer.Option("--exact-trace", help="Require that the trace of X equals the trace bound.")
    ] = False,
    max_time: MaxTime = None,
    max_tries: Annotated[int, typer.Option(help="The maximum number of tries of the bisection.")] = 40,
    budget: Annotated[
        int | None, typer.Option(help="The maximum number of entries of PROBLEM that the solver may read.")
    ] = None,
    random_state: Annotated[int | None, typer.Option(help="The seed. The same seed gives the same answer.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write V (with X = VV'), the multipliers y and the results to this .npz file.")
    ] = None,
    json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Maximise C.X over the feasible X of PROBLEM, with a bound that no X exceeds. Ctrl-C keeps the best X so far."""
    if output is not None:
        check_can_write(output, problem)
    program = _program(problem, read_program(problem), trace_bound, exact_trace)
    solver = SublinearSdp(eps=eps, method=method, constant=constant)
    started = time.perf_counter()
    result = solve_sdp(
        program,
        solver,
        tol=tol,
        max_tries=max_tries,
        max_time=max_time,
        budget=budget,
        callback=None if quiet else _show,
        random_state=random_state,
    )
    about = {"problem": source_name(problem), **_summary(program, result), "seconds": time.perf_counter() - started}
    if output is not None:
        with atomic_write(output) as file:
            figures = {name: about[name] for name in ("value", "bound", "violation", "status")}
            np.savez(file, factor=result.answer.factor, y=result.y, **figures)
    if json:
        finite = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in about.items()
        }
        print(as_json(finite))
    elif not quiet:
        print(*_lines(about, result), sep="\n")
        if output is not None:
            print(f"{'factor':<15}{output}")
    if result.status == "interrupted":
        say("interrupted: the best answer so far was kept")
        raise typer.Exit(130)


def _program(path: Path, file: ProgramArrays, trace_bound: float | None, exact: bool) -> SemidefiniteProgram:
    """Make the program of a file, with the trace bound from the user, the file or the equalities."""
    bound, kind = file.trace_bound if trace_bound is None else trace_bound, "exactly" if exact else file.trace
    if bound is None:
        bound, kind = implied_trace(file.A, file.b, file.sense), "exactly"
        if bound is None:
            raise ValueError(
                f"{path} has no trace bound, and its equalities do not fix the trace of X; give --trace-bound, a "
                "number that the trace of some best X does not exceed"
            )
    return SemidefiniteProgram(file.C, file.A, file.b, file.sense, bound, trace=kind)


def _show(attempt: SdpTry) -> None:
    asked = "any value" if math.isnan(attempt.asked) else f"a value of {attempt.asked:.6g}"
    outcome = f"{attempt.status} after {attempt.iterations:,} rounds; no more than {attempt.bound:.6g} is possible"
    say(f"asked for {asked}: {outcome}")


def _summary(program: SemidefiniteProgram, result: SdpResult) -> dict[str, Any]:
    answer = result.answer
    return {
        "n": program.n,
        "m": program.m,
        "trace_bound": program.trace_bound,
        "trace": program.trace,
        "value": answer.value,
        "bound": result.bound,
        "violation": answer.violation,
        "scaled_violation": answer.scaled_violation,
        "feasible": result.feasible,
        "rank": answer.rank,
        "status": result.status,
        "tries": len(result.tries),
        "iterations": sum(attempt.iterations for attempt in result.tries),
        "entries_read": result.entries_read,
        "reads": result.reads,
    }


def _lines(about: dict[str, Any], result: SdpResult) -> list[str]:
    not_learning = sum(count for purpose, count in result.reads.items() if not purpose.startswith("learning"))
    size = f"X of {about['n']:,} rows, {about['m']:,} constraints, trace {about['trace']} {about['trace_bound']:g}"
    rows = {
        "problem": f"{about['problem']}: {size}",
        "value": f"{about['value']:.6g}"
        + ("" if result.feasible else ", of an X that violates a constraint by more than eps"),
        "bound": f"{about['bound']:.6g}, which no feasible X exceeds",
        "violation": f"{about['violation']:.3g} at most; {about['scaled_violation']:.3g} in the units of eps",
        "rank": f"{about['rank']} of {about['n']}",
        "read": f"{about['entries_read']:,} entries to solve, {not_learning:,} to check, measure and prove",
        "stopped": _STOPPED.get(result.status, result.status),
        "work": f"{about['iterations']:,} rounds in {about['tries']} tries, {about['seconds']:.2f} s",
    }
    if result.bound == -math.inf:
        rows["bound"] = "no X is feasible"
    return [f"{name:<15}{text}" for name, text in rows.items()]
