"""Write the measured figures into README.md and docs/*.md; `--check` only reports what is out of date or has no source.

The figures are kept in docs/figures/*.csv. The first lines of each file give the command, the date and the machine of
the measurement. Pages show figures in two ways. A table shows all rows of a file, or only some rows or columns:

    <!-- figures: cluster_linear; loss = squared hinge; columns = set | entrant | fit s -->
    (written by this program)
    <!-- end -->

A number in a sentence is a link to its file. The title of the link names the row, by its first cells, and the column:

    a kill costs [0.5](figures/cluster_kills.csv "covtype: lost s, median") s

Everywhere else, a number with a unit, a decimal fraction, or a table cell that contains only a number is reported as a
figure without a source. If such a number is not a measurement, for example a parameter, put it into inline code or a
formula, or list it with a reason in docs/figures/not_measured.csv.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from os.path import relpath
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from common import markdown  # noqa: E402
from records import Record, read  # noqa: E402

COMMAND = "python .ci/figures.py"
FOLDER = ROOT / "docs" / "figures"
NOT_MEASURED = FOLDER / "not_measured.csv"

REGION = re.compile(r"(<!-- figures: (.*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
LINK = re.compile(r'\[([^]]*)\](\((?:docs/)?figures/(\w+)\.csv "([^"]*)"\))')


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def record(name: str) -> Record:
    file = FOLDER / f"{name}.csv"
    if not file.exists():
        raise ValueError(f"there is no docs/figures/{name}.csv; there are {', '.join(sorted(names()))}")
    return read(file)


def names() -> set[str]:
    return {file.stem for file in FOLDER.glob("*.csv") if file != NOT_MEASURED}


# What pages show


def renewed(text: str, page: Path) -> str:
    """The page with all figures as they are in the files."""
    text = REGION.sub(lambda found: found[1] + shown(found[2], page) + found[4], text)
    return LINK.sub(lambda found: f"[{cell(record(found[3]), found[4])}]{found[2]}", text)


def shown(marker: str, page: Path) -> str:
    """The table that a marker asks for, followed by its source."""
    name, *options = (part.strip() for part in marker.split(";"))
    chosen = dict(option.split(" = ", 1) for option in options)
    measured = record(name)
    wanted = chosen.pop("columns", None)
    rows = [row for row in measured.rows if all(row[column] == value for column, value in chosen.items())]
    if not rows:
        raise ValueError(f"no row of docs/figures/{name}.csv has {chosen}")
    columns = wanted.split(" | ") if wanted else [column for column in rows[0] if column not in chosen]
    table = markdown(columns, [[row[column] for column in columns] for row in rows])
    return f"{table}\n\n{source(name, measured.made, page)}\n"


def source(name: str, made: Mapping[str, str], page: Path) -> str:
    commands = ", ".join(f"`{command}`" for command in made["command"].split("; "))
    file = relpath(FOLDER / f"{name}.csv", page.parent)
    return f"From {commands}, {made['date']}, {made['machine']}: [{name}.csv]({file})."


def cell(measured: Record, title: str) -> str:
    """The cell named "ROW: COLUMN"; ROW lists the first cells of the row, as many as it takes to identify it."""
    label, column = title.rsplit(": ", 1)
    found = [row[column] for row in measured.rows if label in labels(list(row.values()))]
    if len(found) != 1:
        raise ValueError(f"{title!r} names {len(found)} rows of the file, expected 1")
    return found[0]


def labels(row: Sequence[str]) -> list[str]:
    return [", ".join(row[:count]) for count in range(1, len(row))]


# Figures without a source

NUMBER = r"(?<![\w.,^/])\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?"
UNIT = (
    r"(?:%|per ?cent|[mµn]?s|milliseconds?|seconds?|minutes?|hours?|[kKMG]B|bytes|times|[x×](?! ?\d)|CPU|wall"
    r"|entries|evaluations|passes|pass|rounds|sweeps|visits|iterations)(?!\w)"
)
FIGURE = re.compile(
    rf"{NUMBER}(?:(?:[ -]|\n *){UNIT}|%)"  # with a unit, which may be on the next line
    r"|(?<![\w.,/])\d+\.\d+(?![\d.])|(?<![\w.,])\d+(?:\.\d+)?e-?\d+"  # a decimal fraction, a power of ten
    r"|(?<=[^\n]\|)[ *~<>]*-?\d[\d,]*[ *]*(?=\|)"  # a cell with only a number; the first cell may be a row number
)

NO_FIGURES = re.compile(
    r"^ *```.*?^ *```$"  # code
    r"|<!-- figures: .*?<!-- end -->|<!-- (\w+) solvers: .*?<!-- end of \1 solvers -->|<!--.*?-->"  # generated parts
    r"|\$\$.*?\$\$|\$`[^`]+`\$|`[^`\n]*(?:\n[^`\n]+)?`"  # formulas and inline code
    r"|(?:Lemma|Theorem|Definition|[Ss]ection|Python) \d+\.\d+"  # numbers of theorems, sections and versions
    rf"|{LINK.pattern}|(?<=\])\([^)]*\)|https?://\S+",  # figures with a source, targets of links
    re.DOTALL | re.MULTILINE,
)


def without_source(text: str, allowed: Sequence[str] = ()) -> Iterator[tuple[int, str]]:
    """The line and the text of each figure on a page that does not come from a file."""
    for blank in (NO_FIGURES, *(re.compile(re.escape(phrase)) for phrase in allowed)):
        text = blank.sub(lambda found: "`" + "\n" * found[0].count("\n"), text)
    for found in FIGURE.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].split())


def allowed_on(page: Path) -> list[str]:
    own = relpath(page, ROOT)
    return [row["text"] for row in read(NOT_MEASURED).rows if row["page"] in (own, "all")]


def main() -> None:
    check, wrong = "--check" in sys.argv, []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        new = renewed(text, page)
        if not check:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            wrong.append(f"{relpath(page, ROOT)} is out of date; run `{COMMAND}`")
        wrong += [
            f"{relpath(page, ROOT)}:{line}: {figure!r} is not from a file of docs/figures"
            for line, figure in without_source(new, allowed_on(page))
        ]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
