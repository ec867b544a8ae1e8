"""The pages of the arena, as Markdown and as one HTML file, from its CSV file alone."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from results import QUICK, TASK, Measured, Row, read, values_of, where

from benchmarks.arena.curves import CLOCKS, PRIMAL, TARGETS, Problem, Verdict, left_out, problems, verdict
from benchmarks.arena.document import Block, Heading, Paragraph, Picture, Table, as_html, as_markdown
from benchmarks.arena.drawing import draw_set, draw_summary
from benchmarks.arena.entrants import displayed
from benchmarks.arena.race import BEST, FAR_BEHIND, LIMITS, SEARCH, SEARCH_PATIENCE, TOOK

NAME, TITLE = "arena", "The arena: maxmargin and its peers on the same problems"
KINDS = {
    "linear": "Linear SVMs without a bias: suboptimality of the primal objective",
    "kernel": "Gaussian kernel, with a bias: suboptimality of the dual objective, which all entrants maximise",
    "search": "Searches over C and gamma: time to the lowest test error plus one standard error",
}
HEADS = ("mode", "date", "machine")  # entries in the head of the file that are not versions
VERDICT_HEAD = ("problem", "accuracy", "maxmargin, s", "best peer, s", "best peer", "ratio", "ratio of CPU times")

RATIO = (
    "The tables below have wall seconds to an accuracy. A ratio is the time of the best peer divided by that of "
    "maxmargin: above 1, maxmargin is quicker. The last column compares CPU times, where the best peer may be another "
    "one."
)


def write_pages(file: Path, folder: Path, picture: Path, sets: Sequence[str] = ()) -> None:
    """Write all pages and pictures to a folder; the summary picture may go elsewhere.

    The pages name those of `sets` that are not measured yet.
    """
    measured = read(file)
    found = list(problems(measured.rows))
    for name in sets_in(found):
        draw_set([problem for problem in found if problem.set == name], folder / f"{stem(name)}.svg")
    draw_summary(found, picture)
    (folder / "index.md").write_text(as_markdown(TITLE, [*content(measured, sets), *links(file.name)]))
    (folder / f"{NAME}.html").write_text(as_html(TITLE, content(measured, sets), folder))


def sets_in(found: Sequence[Problem]) -> list[str]:
    return list(dict.fromkeys(problem.set for problem in found))


def stem(name: str) -> str:
    """The file name of a set's picture, without its ending."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def links(source: str) -> list[Block]:
    """The last paragraph of the Markdown page."""
    page = f"{NAME}.html"
    return [Paragraph(f"All numbers come from [{source}]({source}). [{page}]({page}) is this page as a single file.")]


def content(measured: Measured, sets: Sequence[str] = ()) -> list[Block]:
    """The content of both pages."""
    found = list(problems(measured.rows))
    blocks: list[Block] = [*introduction(measured, sets), Heading("Verdict", 2), *summary(found), Paragraph(RATIO)]
    for family, title in KINDS.items():
        own = [problem for problem in found if problem.family == family]
        if own:
            blocks += [Heading(title, 3), Table(VERDICT_HEAD, list(verdict_lines(own)))]
    kernels = [problem for problem in found if problem.family == "kernel"]
    if kernels:
        blocks += [
            Heading("The same kernel problems by the primal objective", 3),
            Paragraph(
                "The primal objective measures the model as a classifier. It approaches its optimum later than the "
                "dual objective."
            ),
            Table(VERDICT_HEAD, list(verdict_lines(kernels, PRIMAL))),
        ]
    blocks += [Heading("Sets", 2)]
    for name in sets_in(found):
        blocks += section(name, found)
    return [*blocks, Heading("How it was measured", 2), *method(measured)]


def introduction(measured: Measured, sets: Sequence[str]) -> Iterator[Block]:
    made = measured.made
    cap = LIMITS[measured.mode].cap
    quick = f"**A quick run: small sets, few repeats, and at most {cap:g} s per core for a fit.** "
    yield Paragraph(
        f"{quick if measured.mode == QUICK else ''}Every entrant fits the same problems at a series of its own "
        "tolerances or numbers of epochs. Entrants take turns, each in its own process. We compute the objective in "
        "float64 from the fitted model alone. The time to an accuracy is that of the quickest fit that reaches it. "
        f"Measured on {made['date']} ({made['machine']}) with all cores, default parameters and no environment "
        "variables set."
    )
    versions = ", ".join(f"{name} {version}" for name, version in made.items() if name not in HEADS)
    yield Paragraph(f"Versions: {versions}.")
    for reason, names in left_out(measured.rows).items():
        yield Paragraph(f"**Missing: {', '.join(map(displayed, names))}** ({reason}).")
    done = values_of(measured.rows, TASK)
    if remaining := [name for name in sets if name not in done]:
        yield Paragraph(f"**Not measured yet: {'; '.join(remaining)}.** The next run continues with these sets.")


def summary(found: Sequence[Problem]) -> Iterator[Block]:
    """How often maxmargin is the quickest, by which factor, and all problems where it is not."""
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
    median = float(np.median([found.ratio for found in decided]))
    text = f"**{title}:** maxmargin is the quickest in {len(decided) - len(behind)} of {len(decided)} problems."
    if math.isfinite(median) and median > 0:
        text += f" The median ratio of the best peer's wall time to that of maxmargin is {ratio(median)}."
    if behind:
        losses = "; ".join(f"{found.problem.name} ({ratio(found.ratio)}, {displayed(found.who)})" for found in behind)
        text += f" A peer is quicker on {losses}."
    yield Paragraph(text)


def verdict_lines(found: Sequence[Problem], measure: str = "") -> Iterator[list[str]]:
    """A line for each problem and accuracy that some entrant reached."""
    for problem in found:
        for target in [problem.error_target()] if problem.family == SEARCH else TARGETS:
            wall, cpu = (verdict(problem, target, clock, measure) for clock in CLOCKS)
            if wall is None or cpu is None or math.isnan(wall.ratio):
                continue
            accuracy = f"{100 * target:.2f} % error" if problem.family == SEARCH else f"{target:g}"
            yield [problem.name, accuracy, *times(wall), ratio(wall.ratio), ratio(cpu.ratio)]


def times(found: Verdict) -> list[str]:
    return [seconds(found.ours), seconds(found.peer), displayed(found.who) if math.isfinite(found.peer) else "none"]


def seconds(value: float) -> str:
    return f"{value:#.3g}" if math.isfinite(value) else "not reached"


def ratio(value: float) -> str:
    """A peer's time divided by that of maxmargin, or which of the two alone reached the accuracy."""
    return "only maxmargin" if math.isinf(value) else "only a peer" if value == 0 else f"{value:.2g}"


def section(name: str, found: Sequence[Problem]) -> Iterator[Block]:
    """The curves of one set, and the times of its entrants."""
    own = [problem for problem in found if problem.set == name]
    yield Heading(name, 3)
    yield Paragraph(f"{own[0].about['shape']}.")
    yield Picture(f"{stem(name)}.svg", f"{name}: accuracy against wall and CPU seconds, a curve for each entrant")
    for problem in own:
        if problem.family == SEARCH:
            yield Table(*search_table(problem))
            continue
        yield Paragraph(
            f"**{problem.case}.** The optimum is known to a relative accuracy of {problem.known_within():.1e}."
        )
        yield Table(*entrants_table(problem))


def entrants_table(problem: Problem) -> tuple[list[str], list[list[str]]]:
    lines = []
    for title in problem.entrants:
        points = problem.points(title, "wall")
        nearest = f"{min(point.distance for point in points):.1e}" if points else ""
        wall, cpu = ([seconds(problem.seconds_to(title, target, clock)) for target in TARGETS] for clock in CLOCKS)
        both = [f"{a} ({b})" if a != "not reached" else "-" for a, b in zip(wall, cpu, strict=True)]
        lines.append([displayed(title), *both, nearest, problem.note(title)])
    head = [f"to {target:g}, wall (CPU) s" for target in TARGETS]
    return ["entrant", *head, "best accuracy", "stopped"], lines


def search_table(problem: Problem) -> tuple[list[str], list[list[str]]]:
    head = ["entrant", "grid", "wall s", "CPU s", "test error", "C", "gamma"]
    return head, [search_line(row) for row in where(problem.rows, kind=SEARCH)]


def search_line(row: Row) -> list[str]:
    side = f"{row['rung']:.0f} x {row['rung']:.0f}"
    chosen = ["" if row.get(name) is None else f"{row[name]:.3g}" for name in ("C", "gamma")]
    return [
        displayed(row["entrant"]),
        side,
        seconds(row["wall"]),
        seconds(row["cpu"]),
        f"{100 * row['error']:.2f} %",
        *chosen,
    ]


def method(measured: Measured) -> Iterator[Block]:
    limits = LIMITS[measured.mode]
    quick = " --quick --out docs/arena" if measured.mode == QUICK else ""
    minutes = sum(row["wall"] for row in where(measured.rows, kind=TOOK)) / 60
    yield Paragraph(f"`python -m benchmarks.arena{quick}` took {minutes:.0f} minutes.")
    yield Paragraph(
        "Tolerances are 1, 0.1, ..., 1e-8; epochs are 1, 3, 10, ..., 1000. The series of an entrant ends with the "
        f"first fit that reaches a relative suboptimality of {BEST:g}, that takes more than {FAR_BEHIND} times as long "
        f"as the quickest fit of another entrant that has reached it, or that needs more than {limits.cap:g} CPU "
        f"seconds per core ({SEARCH_PATIENCE * limits.cap:g} for a search). Each fit runs up to {limits.repeats} "
        f"times, in turns with the others, unless its runs have taken {limits.enough:g} s of wall time before; the "
        "best time counts. The optimum is the best value of all entrants and of a float64 solution by maxmargin; the "
        "dual objective bounds its distance from the true optimum. With a kernel, dual weights are clipped to their "
        "box and balanced before the dual objective is computed. With several classes, objectives are sums over all "
        "binary problems: one-vs-rest for linear SVMs, one-vs-one with a kernel."
    )
    yield Paragraph(
        "Times do not include imports, the conversion of the data to the layout of an entrant (LIBLINEAR, LIBSVM and "
        "Vowpal Wabbit have their own formats), and the compilation of skglm. maxmargin, snapml and one of the two "
        "entrants of scikit-learn-intelex get the data in float32; the others get the same values in float64. Vowpal "
        "Wabbit runs without a holdout, so that it minimises the same objective; with its default updates, many passes "
        "diverge. scikit-learn-intelex passes `LinearSVC` on to scikit-learn and therefore takes part with kernels "
        "only. liquidSVM chooses the range of its grid itself and predicts by a vote of the models of the folds, so it "
        "is compared by test error only."
    )
