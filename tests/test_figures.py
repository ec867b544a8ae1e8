"""Every figure of README.md and docs/*.md comes from a file of docs/figures, which says how it was measured."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if not (ROOT / ".ci" / "figures.py").exists():
    pytest.skip("the pages come with a checkout only", allow_module_level=True)

FIGURES = runpy.run_path(str(ROOT / ".ci" / "figures.py"))
PAGES = {str(page.relative_to(ROOT)): page for page in FIGURES["pages"]()}
NAMES = sorted(FIGURES["names"]())


def found(text: str, *allowed: str) -> list[str]:
    return [figure for _, figure in FIGURES["without_source"](text, allowed)]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_its_files_say(name):
    text = PAGES[name].read_text(encoding="utf-8")
    assert FIGURES["renewed"](text, PAGES[name]) == text, f"{name} is out of date; run `{FIGURES['COMMAND']}`"


@pytest.mark.parametrize("name", PAGES)
def test_no_figure_is_without_a_source(name):
    text = PAGES[name].read_text(encoding="utf-8")
    assert list(FIGURES["without_source"](text, FIGURES["allowed_on"](PAGES[name]))) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_how_it_was_measured_and_is_shown(name):
    made = FIGURES["record"](name).made
    assert made["command"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made["date"])
    assert re.search(r"\d cores", made["machine"])
    shown = [FIGURES["REGION"].findall(page.read_text(encoding="utf-8")) for page in PAGES.values()]
    assert name in {marker.split(";")[0] for regions in shown for _, marker, *_ in regions}


def test_what_is_allowed_is_on_its_page_and_would_be_found():
    for row in FIGURES["read"](FIGURES["NOT_MEASURED"]).rows:
        pages = PAGES.values() if row["page"] == "all" else [PAGES[row["page"]]]
        assert found(row["text"]), row
        assert any(row["text"] in page.read_text(encoding="utf-8") for page in pages), row
        assert row["reason"], row


# The scanner itself


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("It takes 19.8 s on two cores.", "19.8 s"),
        ("It takes 12 s.", "12 s"),
        ("twice, in 1,325 MB.", "1,325 MB"),
        ("An error of 2% is left.", "2%"),
        ("to 3 per cent", "3 per cent"),
        ("which is 30 times as fast", "30 times"),
        ("which is 30 x faster", "30 x"),
        ("a gap of 7e-4", "7e-4"),
        ("after 20 passes", "20 passes"),
        ("which took 12\n  minutes", "12 minutes"),
        ("| Adult | 1,625 |", "1,625"),
        ("| Adult | > 4 |", "> 4"),
        ("| Adult | **7** |", "**7**"),
        ("*12 minutes* [of 4](speed.md)", "12 minutes"),
        ("<!-- figures: a -->\n| 1.5 |\n<!-- end -->\nand 3 hours", "3 hours"),
    ],
)
def test_a_planted_figure_is_found(text, figure):
    assert found(text) == [figure]
    assert found(f"# A page\n\n{text}\n") == [figure]
    assert found(text.replace("\n  ", " "), figure) == []


@pytest.mark.parametrize(
    "text",
    [
        "`tol=0.001` and `100 s`, over\ntwo `lines of\n12 s`",
        "```python\nprint(1.5)  # 12 s\n```",
        "of 60,000 x 784 samples in 10 classes, 2026-11-18",
        "see section 3.2, Lemma 2.1 and Python 3.11",
        "| 1 | the first row of a table |",
        "a rate of $`1.5 \\sqrt t`$",
        "<!-- figures: a -->\n| 1.5 |\n\nFrom 12 s\n<!-- end -->",
        '[0.5](figures/a.csv "b: c") s',
        "[a page](https://example.org/1.5)",
    ],
)
def test_what_is_no_figure_is_not_found(text):
    assert found(text) == []


def test_the_line_of_a_figure_is_told():
    assert list(FIGURES["without_source"]("```\n1\n```\n`a\nb`\n\n12 s")) == [(7, "12 s")]


# The generator itself


@pytest.fixture
def page(tmp_path, monkeypatch):
    """A page beside a folder of figures, of which the generator knows."""
    figures = tmp_path / "figures"
    figures.mkdir()
    head = "# command: benchmarks/a.py; benchmarks/b.py\n# date: 2026-11-18\n# machine: 2 cores\n"
    (figures / "a.csv").write_text(head + "set,loss,s\nAdult,hinge,1.5\nAdult,squared,2.5\nMNIST,hinge,3.5\n")
    monkeypatch.setitem(FIGURES["renewed"].__globals__, "FOLDER", figures)
    return tmp_path / "page.md"


def test_a_table_is_written(page):
    table = "| set | loss | s |\n| --- | --- | --- |\n| Adult | hinge | 1.5 |\n"
    text = FIGURES["renewed"]("<!-- figures: a -->\nold\n<!-- end -->", page)
    assert text.startswith(f"<!-- figures: a -->\n{table}| Adult | squared | 2.5 |\n| MNIST")
    assert text.endswith(
        "\n\nFrom `benchmarks/a.py`, `benchmarks/b.py`, 2026-11-18, 2 cores: [a.csv](figures/a.csv).\n<!-- end -->"
    )
    assert FIGURES["renewed"](text, page) == text


def test_rows_and_columns_are_chosen(page):
    text = FIGURES["renewed"]("<!-- figures: a; loss = hinge; columns = s | set -->\n<!-- end -->", page)
    assert "-->\n| s | set |\n| --- | --- |\n| 1.5 | Adult |\n| 3.5 | MNIST |\n\n" in text
    text = FIGURES["renewed"]("<!-- figures: a; set = MNIST -->\n<!-- end -->", page)
    assert "-->\n| loss | s |\n| --- | --- |\n| hinge | 3.5 |\n\n" in text


def test_a_number_is_written(page):
    link = '(figures/a.csv "Adult, squared: s")'
    assert FIGURES["renewed"](f"takes [9]{link} s", page) == f"takes [2.5]{link} s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[9](figures/a.csv "Adult: s")', "names 2 rows"),
        ('[9](figures/b.csv "Adult: s")', "there is no docs/figures/b.csv; there are a"),
        ("<!-- figures: a; set = news -->\n<!-- end -->", "no row of docs/figures/a.csv has"),
    ],
)
def test_what_a_file_does_not_have_is_an_error(page, text, message):
    with pytest.raises(ValueError, match=message):
        FIGURES["renewed"](text, page)
