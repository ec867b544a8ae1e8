"""docs/architecture.md is true of the code: its rooms, the files and functions that it names, its papers."""

import re
import runpy
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / "docs").exists():
    pytest.skip("the pages come with a checkout only", allow_module_level=True)

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "src" / "maxmargin"
SOURCES = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".pyx")}


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The rows of the table of a section, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def head_of(file: str) -> str:
    """The docstring of a module, on one line."""
    match = re.match(r'(?:#[^\n]*\n)*\s*r?"""(.*?)"""', SOURCES[file].read_text(encoding="utf-8"), re.DOTALL)
    assert match, f"{file} has no docstring"
    return " ".join(match[1].split())


# The rooms


def floors() -> list[list[str]]:
    return runpy.run_path(str(ROOT / ".ci" / "check_layers.py"))["FLOORS"]


def test_every_room_is_described():
    named = {name.rstrip("/") for row in rows("The rooms") for name in re.findall(r"`([\w/.]+)`", row[0])}
    assert named == {room if (PACKAGE / room).is_dir() else f"{room}.py" for floor in floors() for room in floor}


def test_the_picture_shows_the_floors():
    """Each room points at the floor below it; the rooms of a floor are not connected."""
    arrows = re.findall(r"^ +(\w+) --> (\w+)", section("The rooms"), re.MULTILINE)
    drawn = [[room for room in floor if room != "solvers"] for floor in floors()]  # it shares a box with `problems`
    assert set(arrows) == {(room, below) for floor, under in pairwise(drawn) for room in floor for below in under}


# Files and functions that the page names


FILES = sorted(set(re.findall(r"`((?:\w+/)+\w+\.(?:py|pyx)|problems\.py|solvers\.py)`", PAGE)))


@pytest.mark.parametrize("file", FILES)
def test_every_file_that_is_named_exists(file):
    places = [PACKAGE / file, PACKAGE.parent / file, ROOT / file]
    assert any(place.exists() for place in places)


@pytest.mark.parametrize(
    ("file", "names"), re.findall(r"`((?:\w+/)+\w+\.pyx?)`: (`[\w.]+`(?:, `[\w.]+`)*)", PAGE), ids=str
)
def test_every_function_that_is_named_is_in_its_file(file, names):
    text = SOURCES[file].read_text(encoding="utf-8")
    for name in re.findall(r"\w+", names.replace(".", " ")):
        assert re.search(rf"^\s*(?:def|class|cdef class) {name}\b", text, re.MULTILINE), (file, name)


# The papers


PAPERS = [(*row[:2], row[3].strip("`")) for row in rows("The papers")]


@pytest.mark.parametrize(("paper", "place", "file"), PAPERS, ids=[" ".join(row) for row in PAPERS])
def test_a_file_names_the_paper_and_the_section_of_its_algorithm(paper, place, file):
    authors, year = re.match(r"(.*?) (\d{4})", paper).groups()
    head = head_of(file)
    assert all(author in head for author in authors.split(", ")), head
    assert year in head, head
    number = place.removeprefix("section ")
    assert re.search(rf"(?i)sections? (?:\d and )?{number}\b" if number != place else rf"(?i){re.escape(place)}", head)


def test_the_table_of_papers_is_complete():
    """Every solver is in the table, or no paper has it."""
    without = {
        "svm/linear/newton.py",
        "svm/linear/online.py",
        "svm/kernel/visits.py",
        "ball/core_set.py",
        "sdp/bisection.py",
    }
    solvers = {
        file
        for file, path in SOURCES.items()
        if file.startswith(("svm/linear/", "svm/kernel/", "ball/", "sdp/", "game/"))
        and re.search(r"^class \w+\((?:Solver|OnlineSolver|.*Solver)\)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert solvers - without <= {file for *_, file in PAPERS}
