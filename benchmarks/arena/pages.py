"""The pages of the arena, Markdown and one file of HTML, from its CSV file alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from results import QUICK, Measured, Row, read, where

from benchmarks.arena.curves import CLOCKS, PRIMAL, TARGETS, Problem, Verdict, left_out, problems, verdict
from benchmarks.arena.document import Block, Heading, Paragraph, Picture, Table, as_html, as_markdown
from benchmarks.arena.drawing import draw_set, draw_summary
from benchmarks.arena.race import BEST, FAR_BEHIND, LIMITS, SEARCH, SEARCH_PATIENCE, TOOK

NAME, TITLE = "arena", "The arena: ours and its peers on the same problems"
KINDS = {
    "linear": "Linear SVMs without a bias: suboptimality of the primal objective",
    "kernel": "Gaussian kernel, with a bias: suboptimality of the dual objective, which all of them maximise",
    "search": "Searches over C and gamma: to the least test error plus a standard error",
}
HEADS = ("mode", "date", "machine")  # what the head of the file has beside versions
VERDICT_HEAD = ("problem", "to", "ours, s", "best peer, s", "best peer", "peer / ours", "peer / ours, CPU")


def write_pages(file: Path, folder: Path, picture: Path) -> None:
    """All pages and pictures, in a folder; the summary picture may live elsewhere."""
    measured = read(file)
    found = list(problems(measured.rows))
    for name in sets_in(found):
        draw_set([problem for problem in found if problem.set == name], folder / f"{stem(name)}.svg")
    draw_summary(found, picture)
    (folder / "index.md").write_text(as_markdown(TITLE, [*content(measured), *links(file.name)]))
    (folder / f"{NAME}.html").write_text(as_html(TITLE, content(measured), folder))


def sets_in(found: Sequence[Problem]) -> list[str]:
    return list(dict.fromkeys(problem.set for problem in found))


def stem(name: str) -> str:
    """Of the picture of a set."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def links(source: str) -> list[Block]:
    """What the page of Markdown links to."""
    page = f"{NAME}.html"
    return [Paragraph(f"All figures come from [{source}]({source}). [{page}]({page}) is this page in one file.")]


def content(measured: Measured) -> list[Block]:
    """What both pages say."""
    found = list(problems(measured.rows))
    blocks: list[Block] = [*introduction(measured), Heading("Verdict", 2), *summary(found)]
    for family, title in KINDS.items():
        own = [problem for problem in found if problem.family == family]
        if own:
            blocks += [Heading(title, 3), Table(VERDICT_HEAD, list(verdict_lines(own)))]
    kernels = [problem for problem in found if problem.family == "kernel"]
    if kernels:
        blocks += [
            Heading("The same kernel problems by the primal objective", 3),
            Paragraph("The value of the model as a classifier, which comes near its optimum later than the dual one."),
            Table(VERDICT_HEAD, list(verdict_lines(kernels, PRIMAL))),
        ]
    blocks += [Heading("Sets", 2)]
    for name in sets_in(found):
        blocks += section(name, found)
    return [*blocks, Heading("How it was made", 2), *method(measured)]


def introduction(measured: Measured) -> Iterator[Block]:
    made = measured.made
    quick = "**A quick run: small sets, few repeats, a cap of seconds.** " if measured.mode == QUICK else ""
    yield Paragraph(
        f"{quick}Every entrant fits the same problems at a series of its own tolerances or numbers of epochs, in turns "
        f"with the others, in a process of its own. The objective is computed by our own code, in float64, from the "
        f"model alone; the time to an accuracy is that of the quickest fit that is as accurate. "
        f"{made['date']}, {made['machine']}, all cores, default parameters, no environment variable set."
    )
    versions = ", ".join(f"{name} {version}" for name, version in made.items() if name not in HEADS)
    yield Paragraph(f"Versions: {versions}.")
    for reason, names in left_out(measured.rows).items():
        yield Paragraph(f"**Missing: {', '.join(names)}.** {reason}")


def summary(found: Sequence[Problem]) -> Iterator[Block]:
    """How often ours is ahead, by how much, and every problem in which it is not."""
    objectives = [problem for problem in found if problem.family != SEARCH]
    for target in TARGETS:
        yield from counted(f"To a relative suboptimality of {target:g}", [(p, target) for p in objectives])
    searches = [(problem, problem.error_target()) for problem in found if problem.family == SEARCH]
    yield from counted("Searches", searches)


def counted(title: str, asked: Sequence[tuple[Problem, float]]) -> Iterator[Block]:
    verdicts = [found for problem, target in asked if (found := verdict(problem, target)) is not None]
    decided = [found for found in verdicts if not math.isnan(found.ratio)]
    if not decided:
        return
    behind = [found for found in decided if found.ratio < 1]
    text = (
        f"**{title}:** ours is the quickest in {len(decided) - len(behind)} of {len(decided)} problems, by the median "
        f"{ratio(float(np.median([found.ratio for found in decided])))} times the best peer in wall time."
    )
    if behind:
        losses = "; ".join(f"{found.problem.name} ({ratio(found.ratio)}, {found.who})" for found in behind)
        text += f" Behind in {losses}."
    yield Paragraph(text)


def verdict_lines(found: Sequence[Problem], measure: str = "") -> Iterator[list[str]]:
    """A line for each problem and accuracy that somebody reached."""
    for problem in found:
        for target in [problem.error_target()] if problem.family == SEARCH else TARGETS:
            wall, cpu = (verdict(problem, target, clock, measure) for clock in CLOCKS)
            if wall is None or cpu is None or math.isnan(wall.ratio):
                continue
            accuracy = f"{100 * target:.2f} % error" if problem.family == SEARCH else f"{target:g}"
            yield [problem.name, accuracy, *times(wall), ratio(wall.ratio), ratio(cpu.ratio)]


def times(found: Verdict) -> list[str]:
    return [seconds(found.ours), seconds(found.peer), found.who if math.isfinite(found.peer) else "none"]


def seconds(value: float) -> str:
    return f"{value:#.3g}" if math.isfinite(value) else "not reached"


def ratio(value: float) -> str:
    """Of a peer's time to ours; one of the two may not have got there."""
    return "only ours" if math.isinf(value) else "only the peer" if value == 0 else f"{value:.2g}"


def section(name: str, found: Sequence[Problem]) -> Iterator[Block]:
    """Of one set: its curves, and what each entrant took."""
    own = [problem for problem in found if problem.set == name]
    yield Heading(name, 3)
    yield Paragraph(f"{own[0].about['shape']}.")
    yield Picture(f"{stem(name)}.svg", f"{name}: accuracy against wall and CPU seconds, a curve for each entrant")
    for problem in own:
        if problem.family == SEARCH:
            yield Table(*search_table(problem))
            continue
        yield Paragraph(f"**{problem.case}**; the optimum is known to within {problem.known_within():.1e}.")
        yield Table(*entrants_table(problem))


def entrants_table(problem: Problem) -> tuple[list[str], list[list[str]]]:
    lines = []
    for title in problem.entrants:
        points = problem.points(title, "wall")
        nearest = f"{min(point.distance for point in points):.1e}" if points else ""
        wall, cpu = ([seconds(problem.seconds_to(title, target, clock)) for target in TARGETS] for clock in CLOCKS)
        both = [f"{a} ({b})" if a != "not reached" else "-" for a, b in zip(wall, cpu, strict=True)]
        lines.append([title, *both, nearest, problem.note(title)])
    head = [f"to {target:g}, wall (CPU) s" for target in TARGETS]
    return ["entrant", *head, "nearest", "stopped"], lines


def search_table(problem: Problem) -> tuple[list[str], list[list[str]]]:
    head = ["entrant", "grid", "wall s", "CPU s", "test error", "C", "gamma"]
    return head, [search_line(row) for row in where(problem.rows, kind=SEARCH)]


def search_line(row: Row) -> list[str]:
    side = f"{row['rung']:.0f} x {row['rung']:.0f}"
    chosen = ["" if row.get(name) is None else f"{row[name]:.3g}" for name in ("C", "gamma")]
    return [row["entrant"], side, seconds(row["wall"]), seconds(row["cpu"]), f"{100 * row['error']:.2f} %", *chosen]


def method(measured: Measured) -> Iterator[Block]:
    limits = LIMITS[measured.mode]
    quick = " --quick --out docs/arena" if measured.mode == QUICK else ""
    minutes = sum(row["wall"] for row in where(measured.rows, kind=TOOK)) / 60
    yield Paragraph(f"`python -m benchmarks.arena{quick}`: {minutes:.0f} minutes.")
    yield Paragraph(
        f"Tolerances are 1, 0.1, ... 1e-8, epochs 1, 3, 10, ... 1000; an entrant ends its series at a relative "
        f"suboptimality of {BEST:g}, with a fit that takes more than {FAR_BEHIND} times as long as another's that got "
        f"there, or with one that takes more than {limits.cap:g} seconds on each core, of a search {SEARCH_PATIENCE} "
        f"times as many. Fits are repeated, in turns with the others, {limits.repeats} times "
        f"in all, unless they take {limits.enough:g} s together; the best time counts. The optimum is the best value "
        f"that anyone reached, ours in float64 included; how far it can be from the true one, the dual objective "
        f"proves. With a kernel, weights are cut to their box and balanced before the dual objective is computed. Of "
        f"several classes, objectives are the sums over all binary problems: one class against the rest (linear), "
        f"every two classes (kernel)."
    )
    yield Paragraph(
        "Not counted: imports, the conversion of the data to an entrant's layout before the fit (LIBLINEAR, LIBSVM and "
        "Vowpal Wabbit have it in a format of their own), and the seconds in which skglm is compiled. Data is float32 "
        "for ours, snapml and one of the two entrants of scikit-learn-intelex, which are the same values as those in "
        "float64 for the others. Vowpal Wabbit holds out no rows, so that it minimises the same objective; with its "
        "default updates, many passes diverge from it. scikit-learn-intelex passes `LinearSVC` on to scikit-learn, and "
        "so is among the kernel machines only. liquidSVM chooses the bounds of its grid and returns a vote of the "
        "models of the folds, so it is compared by test error only."
    )
