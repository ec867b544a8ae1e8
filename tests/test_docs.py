"""What the pages show runs as typed, what they name exists, and every page can be found."""

import argparse
import contextlib
import functools
import io
import re
import runpy
import shlex
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, make_classification
from typer.main import get_command
from typer.testing import CliRunner

import maxmargin
from maxmargin import LinearSVC, SlackSVM, solve
from maxmargin.cli.app import app
from maxmargin.core import l1_sample
from maxmargin.data import write_sdpa
from maxmargin.engine import registry
from maxmargin.problems import MaxMin
from maxmargin.solvers import PrimalDual

ROOT = Path(__file__).parents[1]
if not (ROOT / "README.md").exists():
    pytest.skip("the pages come with a checkout only", allow_module_level=True)

INDEX = ROOT / "docs" / "index.md"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGES[page], re.DOTALL | re.MULTILINE)


# Python


@dataclass
class Shown:
    """What the Python blocks of a page define and print."""

    names: dict[str, Any]
    printed: str


def execute(page: str) -> Shown:
    """Run the Python blocks of a page in order, in one namespace, as a reader would who types them all."""
    names: dict[str, Any] = {"__name__": Path(page).stem}
    known = dict(registry._all_registered())
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for block in blocks(page, "python"):
                exec(compile(block, page, "exec"), names)
    finally:  # forget the solvers that the page defines
        registry._registered.clear()
        registry._registered.update(known)
    return Shown(names, printed.getvalue())


run = functools.cache(execute)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_every_python_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)


def test_what_the_readme_prints():
    printed = run("README.md").printed
    assert "of the best possible at this slack" in printed
    assert "of the best possible at this C\n" in printed
    assert "of the best possible at this C\nsdca_newton tol\n" in run("docs/tour.md").printed


def test_the_readme_is_short():
    assert len(PAGES["README.md"].splitlines()) <= 100


def test_every_difference_from_scikit_learn_is_shown_by_a_program():
    """The numbers of the rows of the table are those of the comments in the program, which runs with the others."""
    page = "docs/migration.md"
    numbers = re.findall(r"^\| (\d+) \|", PAGES[page], re.MULTILINE)
    assert re.findall(r"^# (\d+)$", "\n".join(blocks(page, "python")), re.MULTILINE) == numbers
    assert len(numbers) > 5


def test_the_options_of_the_page_for_users_of_libsvm_exist():
    named = set(re.findall(r"`(--[a-zA-Z0-9-]+)[ `]", PAGES["docs/migration.md"]))
    commands = get_command(app)
    train = commands.get_command(commands.context_class(commands), "train")
    assert named <= {name for option in train.params for name in (*option.opts, *option.secondary_opts)}


def test_what_the_page_on_semidefinite_programs_prints():
    feasible, least, program = run("docs/sdp.md").printed.splitlines()
    assert feasible.startswith("feasible: every A_i.X is at least")
    assert float(least) >= 0
    assert re.fullmatch(
        r"the value is .*, and no feasible X has more than .*; the constraints hold to within .*", program
    )


def test_the_player_of_the_page_on_primal_dual():
    """It plays a game whose best strategy is known."""
    shown = run("docs/primal_dual.md")
    assert shown.names["result"].status == "finished"
    assert "the best possible to within" in shown.printed
    A = np.eye(4)
    game = MaxMin(
        4,
        sample=lambda x, rng: A[:, l1_sample(x, rng.random())],
        gradient=lambda i, x: A[i],
        values=lambda x: A @ x,
        bound=lambda p: p.max(),
    )
    result = solve(game, PrimalDual(shown.names["Hedge"](4), eps=0.1, constant=1), random_state=0)
    assert result.certificate.primal >= 0.15
    assert result.certificate.dual <= 0.35


@pytest.fixture
def centroid(monkeypatch):
    """The solver that the guide for contributors defines, registered as it would be in the package."""
    solver = run("CONTRIBUTING.md").names["Centroid"]
    monkeypatch.setitem(registry._registered, ("centroid", False), solver)
    return solver


@pytest.fixture
def two_clouds():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(80) % 2, 1, -1)
    return rng.normal(size=(80, 5)) + y[:, None], y


def test_the_solver_of_the_guide_is_found_by_its_name(centroid, two_clouds):
    X, y = two_clouds
    model = LinearSVC(slack=0.05, solver="centroid", random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.certificate_.gap >= 0
    assert (model.n_iter_, model.stopped_) == (80, "max_iter")
    assert model.entries_read_ == 80 * 5
    np.testing.assert_array_equal(clone(model).fit(X, y).coef_, model.coef_)
    assert LinearSVC(solver="centroid", random_state=0).fit(X, y).score(X, y) > 0.9


def test_the_solver_of_the_guide_keeps_the_rules_of_the_loop(centroid, two_clouds):
    X, y = two_clouds
    result = solve(SlackSVM(X, y, slack=0.05), centroid(), budget=23, certify="checks", random_state=0)
    assert (result.status, result.n_iter, result.reads["learning"]) == ("budget", 4, 20)
    with pytest.raises(ValueError, match="budget of 4 entries is too small for one iteration of 'centroid'"):
        solve(SlackSVM(X, y, slack=0.05), centroid(), budget=4)
    whole = solve(SlackSVM(X, y, slack=0.05), centroid(), max_iter=30, random_state=0)
    half = solve(SlackSVM(X, y, slack=0.05), centroid(), max_iter=15, random_state=0)
    both = solve(SlackSVM(X, y, slack=0.05), centroid(), max_iter=30, warm=half)
    np.testing.assert_array_equal(both.solution.w, whole.solution.w)


# Commands


def lines_of_shell(page: str) -> list[list[str]]:
    lines = "\n".join(blocks(page, "sh")).splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Small files by the names that the pages use."""
    monkeypatch.chdir(tmp_path)
    X, y = make_classification(120, 8, class_sep=2, random_state=0)
    dump_svmlight_file(X[:80], y[:80], "data.libsvm")
    dump_svmlight_file(X[80:], y[80:], "new.libsvm")
    # The theta number of two vertices with an edge: max J.X with tr X = 1 and no weight on the edge.
    C, A, b = np.ones((2, 2)), np.array([[[0.0, 1.0], [1.0, 0.0]], np.eye(2)]), np.array([0.0, 1.0])
    write_sdpa("program.dat-s", C, A, b)
    np.savez("program.npz", C=C, A=A, b=b, sense="=", trace_bound=1.0, trace="exactly")


# Pages whose commands read files that the Python blocks of the page write.
FILES_FROM_PYTHON = ("docs/own_data.md",)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "sh")])
def test_every_line_of_shell_works(page, folder):
    if page in FILES_FROM_PYTHON:
        execute(page)  # in this folder: the result of `run` may come from another one
    for words in lines_of_shell(page):
        match words:
            case ["maxmargin", *arguments]:
                result = CliRunner().invoke(app, arguments)
                assert result.exit_code == 0, (words, result.output, result.exception)
            case ["make", target]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), words
            case ["pip", "install", what]:
                extras = re.findall(r"\w+", what)
                project = (ROOT / "pyproject.toml").read_text()
                assert all(re.search(rf"^{extra} = \[", project, re.MULTILINE) for extra in extras), words
            case _:
                pytest.fail(f"nothing here knows how to try {shlex.join(words)!r}")


def benchmark_commands() -> list[str]:
    """The benchmarks that the pages name, with the options that stand beside the name."""
    spans = {span for text in PAGES.values() for span in re.findall(r"`(?:python )?(benchmarks/\w+\.py[^`]*)`", text)}
    return sorted(" ".join(span.split()) for span in spans)


class Parsed(Exception):
    """The options of a script were understood."""


@pytest.mark.parametrize("command", benchmark_commands())
def test_every_benchmark_takes_the_options_that_the_pages_give_it(command, monkeypatch):
    script, *options = shlex.split(command)
    understand = argparse.ArgumentParser.parse_args

    def parse_and_leave(parser: argparse.ArgumentParser, *args: Any, **more: Any) -> None:
        understand(parser, *args, **more)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_and_leave)
    monkeypatch.setattr(sys, "argv", [script, *options])
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    with pytest.raises(Parsed):
        runpy.run_path(str(ROOT / script), run_name="__main__")


# Links


def links(page: str) -> set[Path]:
    """The files that a page links to."""
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)[^)]*\)", PAGES[page])
    return {(ROOT / page).parent / target for target in targets}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page):
    assert [str(target) for target in links(page) if not target.exists()] == []


def test_every_page_is_in_the_index():
    assert INDEX.resolve() in {target.resolve() for target in links("README.md")}
    listed = {target.resolve() for target in links("docs/index.md")}
    assert {page for page in PAGES if (ROOT / page).resolve() not in listed} == {"README.md", "docs/index.md"}


def test_each_experiment_of_a_paper_is_evidence_on_a_page_of_the_guide():
    linked = {target.resolve() for page in PAGES for target in links(page)}
    experiments = {path for path in (ROOT / "docs" / "papers").glob("*.md") if path.stem != "index"}
    assert experiments - linked == set()


def test_the_files_behind_the_pages_are_small():
    sizes = {str(path.relative_to(ROOT)): path.stat().st_size for path in ROOT.glob("docs/**/*") if path.is_file()}
    assert {name: size for name, size in sizes.items() if size > 1_000_000} == {}


# The reference


def test_the_reference_has_every_public_name() -> None:
    """Each once, on the page of a module that exports it."""
    pages = runpy.run_path(str(ROOT / "docs" / "conf.py"))["reference"]()
    packages = {f"maxmargin.{package}" for package in maxmargin._PACKAGES}
    assert set(pages) == {"maxmargin", "maxmargin.dask", *packages}
    for module, page in pages.items():
        listed = re.findall(r"^   (\w+)$", page, re.MULTILINE) + re.findall(r"`maxmargin(?:\.\w+)*\.(\w+)`", page)
        assert sorted(listed) == sorted(import_module(module).__all__), module


# The tables of solvers


def test_the_tables_of_solvers_are_up_to_date() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "solver_tables.py"))
    page = PAGES["docs/solvers.md"]
    assert script["renewed"](page) == page, f"docs/solvers.md is out of date; run `{script['COMMAND']}`"
