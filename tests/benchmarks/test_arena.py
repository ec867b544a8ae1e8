"""The arena: how entrants are raced, what its file says, and that the pages say the same; without peers and a clock."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks" / "arena").exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
for path in (ROOT, ROOT / "benchmarks"):
    sys.path.insert(0, str(path))

import linear_worker  # noqa: E402
import results  # noqa: E402
import workers  # noqa: E402

from benchmarks.arena import __main__ as command  # noqa: E402
from benchmarks.arena import (  # noqa: E402
    curves,
    document,
    entrants,
    environments,
    features,
    kernels,
    pages,
    race,
    searches,
    sets,
)

PUBLISHED = ROOT / "docs" / "arena"
PICTURE = ROOT / "docs" / "pictures" / "arena.svg"
HERE = {name: environments.Installed(sys.executable, "1.0") for name in (entrants.OURS, "scikit-learn")}


def two_clouds(classes=2):
    rng = np.random.default_rng(0)
    y = np.arange(90) % classes
    X = rng.normal(size=(90, 4)) + 1.5 * np.eye(4)[y]
    return X.astype(np.float32), (2.0 * y - 1 if classes == 2 else y.astype(float))


TINY = (
    features.LinearSet("clouds", two_clouds, dense=True),
    kernels.KernelSet("clouds, kernel", lambda: two_clouds(3), gamma=0.5),
    searches.SearchSet("clouds, search", lambda: two_clouds() * 2),
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A whole run of the tiny sets with what is installed here: the folder of its pages."""
    folder = tmp_path_factory.mktemp("arena")
    ring = race.Ring(results.QUICK, HERE, {"liquidSVM": "pip: no compiler"})
    with pytest.MonkeyPatch.context() as patch:
        short = race.Limits(cap=60, repeats=2, enough=60, reference=60)
        patch.setitem(race.LIMITS, results.QUICK, short)
        file = command.run(folder / "arena.csv", ring, command.head(ring), TINY, None, False)
    pages.write_pages(file, folder, folder / "summary.svg")
    return folder


def test_a_run_leaves_one_file_and_all_pages(tiny):
    stems = ["clouds", "clouds-kernel", "clouds-search", "summary"]
    expected = {"arena.csv", "arena.html", "index.md", *(f"{stem}.svg" for stem in stems)}
    assert {file.name for file in tiny.iterdir()} == expected
    measured = results.read(tiny / "arena.csv")
    assert measured.mode == results.QUICK
    assert measured.made["scikit-learn"] == "1.0"
    assert [problem.name for problem in curves.problems(measured.rows)] == [
        "clouds, hinge, C = 1",
        "clouds, squared hinge, C = 1",
        "clouds, kernel, C = 1",
        "clouds, search",
    ]


def test_all_entrants_reach_the_same_optimum(tiny):
    for problem in curves.problems(results.read(tiny / "arena.csv").rows):
        if problem.family == race.SEARCH:
            continue
        assert -1e-9 < problem.known_within() < 1e-5
        for title in set(problem.entrants) - {"scikit-learn SGDClassifier"}:
            assert problem.seconds_to(title, 1e-4, "wall") < math.inf, (problem.name, title)


def test_fits_are_repeated_and_keep_their_objectives(tiny):
    rows = results.where(results.read(tiny / "arena.csv").rows, kind=race.FIT)
    assert {row["runs"] for row in rows} == {2}
    assert all(row["wall"] > 0 and row["cpu"] >= 0 for row in rows)


def test_the_pages_say_what_the_file_says(tiny):
    text, page = (tiny / "index.md").read_text(), (tiny / "arena.html").read_text()
    measured = results.read(tiny / "arena.csv")
    for problem in curves.problems(measured.rows):
        target = problem.error_target() if problem.family == race.SEARCH else curves.TARGETS[0]
        found = curves.verdict(problem, target)
        for content in (text, page):
            assert problem.name in content
            assert pages.seconds(found.ours) in content
            assert pages.seconds(found.peer) in content
    assert "A quick run" in text
    assert measured.made["date"] in text


def test_a_peer_that_is_missing_is_named_with_the_reason(tiny):
    for name in ("index.md", "arena.html"):
        text = (tiny / name).read_text()
        assert "liquidSVM" in text
        assert "pip: no compiler" in text
        assert "LIBLINEAR dual, LIBLINEAR TRON, lightning SDCA" in text
        assert "it is not installed" in text


def test_the_html_needs_nothing_else(tiny):
    page = (tiny / "arena.html").read_text()
    assert page.count("<svg") == 3
    assert not any(mark in page for mark in ("<script", " src=", "<link", "@import"))
    assert "clouds.svg" not in page


def test_a_set_without_its_data_is_named(tmp_path):
    def missing():
        raise FileNotFoundError("no clouds: set MAXMARGIN_DATA")

    ring = race.Ring(results.QUICK, HERE)
    gone = features.LinearSet("gone", missing)
    file = command.run(tmp_path / "arena.csv", ring, command.head(ring), [gone], None, False)
    pages.write_pages(file, tmp_path, tmp_path / "summary.svg")
    assert "**Missing: gone** (no clouds: set MAXMARGIN_DATA)." in (tmp_path / "index.md").read_text()


def test_sets_that_are_not_measured_yet_are_named(tmp_path):
    rows = [{results.TASK: "a", "kind": race.TOOK, "wall": 60.0}]
    results.write(tmp_path / "arena.csv", results.Measured({"mode": results.FULL, "date": "-", "machine": "-"}, rows))
    for sets_of_the_mode, named in ((["a", "b", "c"], True), (["a"], False)):
        pages.write_pages(tmp_path / "arena.csv", tmp_path, tmp_path / "summary.svg", sets_of_the_mode)
        text = (tmp_path / "index.md").read_text()
        assert ("**Not measured yet: b; c.**" in text) == named
        assert ("Not measured yet" in text) == named


def test_sets_are_run_one_by_one(tmp_path):
    """Until all are there the file is called partial, and what is there is not run again."""
    ran = []

    class Counted:
        def __init__(self, name):
            self.name = name

        def run(self, ring):
            ran.append(self.name)
            return []

    ring, both = race.Ring(results.QUICK, HERE), [Counted("a"), Counted("b")]
    file, head = tmp_path / "arena.csv", command.head(ring)
    assert command.run(file, ring, head, both, ["b"], False) == results.partial_of(file)
    assert command.run(file, ring, head, both, None, False) == file
    assert ran == ["b", "a"]
    command.run(file, ring, head, both, ["a"], True)
    assert ran == ["b", "a", "a"]


def test_results_of_other_versions_are_not_mixed(tmp_path):
    ring = race.Ring(results.QUICK, HERE)
    file = tmp_path / "arena.csv"
    results.write(file, results.Measured({**command.head(ring), "date": "1999-01-01"}, []))
    assert command.differences(file, command.head(ring)) == []
    newer = race.Ring(results.QUICK, HERE | {"snapml": environments.Installed("", "2")})
    assert command.differences(file, command.head(newer)) == ["snapml missing, now 2"]
    full = race.Ring(results.FULL, HERE)
    assert command.differences(file, command.head(full)) == []


# The race


class Fake:
    """A process that takes the seconds it is told for a rung, in order."""

    def __init__(self, *seconds, stops=math.inf):
        self.seconds, self.stops, self.asked = list(seconds), stops, []

    def ask(self, request, seconds):
        self.asked.append(request["rung"])
        if request["rung"] < self.stops:
            took = self.seconds.pop(0)
            return {"rung": request["rung"]}, 2 * took, took
        raise workers.Stopped(f"> {seconds:g}")


def contestant(title, process, ladder):
    return race.Contestant(entrants.Entrant(title, "", "", ladder), process, lambda rung: {"rung": rung})


def test_a_race():
    fast, slow = Fake(1.0, 2.0, 0.5, 3.0), Fake(9.0, stops=2)
    found = race.race(
        race.FIT,
        [contestant("fast", fast, (1, 2, 3)), contestant("slow", slow, (1, 2, 3))],
        lambda model: {"primal": str(model["rung"]), "done": model["rung"] == 2},
        race.Limits(cap=7, repeats=2, enough=5, reference=0),
    )
    assert found[0] == {
        "kind": race.FIT, "entrant": "fast", "rung": 1, "wall": 0.5, "cpu": 1.0, "runs": 2, "primal": "1"
    }  # fmt: skip
    assert [(row["entrant"], row["rung"], row["wall"]) for row in found[1:3]] == [("slow", 1, 9.0), ("fast", 2, 2.0)]
    assert found[3] == {"kind": race.STOPPED, "entrant": "slow", "rung": 2, "note": "> 7 s on each core"}
    assert fast.asked == [1, 2, 1, 2]  # the third rung is not needed
    assert slow.asked == [1, 2]  # it took too long to run again


def test_a_repeat_that_is_stopped_leaves_the_times_of_the_first_run():
    fake = Fake(1.0)
    ask = fake.ask

    def once(request, seconds):
        if fake.asked:
            raise workers.Stopped("failed")
        return ask(request, seconds)

    fake.ask = once
    limits = race.Limits(cap=7, repeats=3, enough=5, reference=0)
    (row,) = race.race(race.FIT, [contestant("one", fake, (1,))], lambda model: {"primal": "1"}, limits)
    assert (row["wall"], row["runs"]) == (1.0, 1)


def test_who_is_far_behind_one_that_is_done_ends_the_climb():
    fast, slow = Fake(1.0, 2.0), Fake(5.0, 2.0 * race.FAR_BEHIND + 1)
    found = race.race(
        race.FIT,
        [contestant("fast", fast, (1, 2)), contestant("slow", slow, (1, 2, 3))],
        lambda model: {"primal": str(model["rung"]), "done": model["rung"] == 2 and not slow.asked[1:]},
        race.Limits(cap=99, repeats=1, enough=5, reference=0),
    )
    assert slow.asked == [1, 2]  # not the third
    assert [row["rung"] for row in found if row["entrant"] == "slow"] == [1, 2, 2]  # what it reached counts
    assert found[-1]["kind"] == race.STOPPED
    assert found[-1]["note"] == f"takes more than {race.FAR_BEHIND} times as long as fast to 1e-06"


# Curves and verdicts


def fit(title, rung, wall, primal, kind=race.FIT):
    return {
        "task": "t", "case": "c", "kind": kind, "entrant": title, "rung": rung, "wall": wall, "cpu": 3 * wall,
        "primal": primal, "dual": None, "note": "> 3 s on each core",
    }  # fmt: skip


ABOUT = {"task": "t", "case": "c", "kind": race.CASE, "family": "linear", "shape": "", "primal": 100.0, "dual": 99.999}
ROWS = [
    ABOUT,
    fit("maxmargin", 0.1, 1.0, 101.0),
    fit("maxmargin", 0.01, 2.0, 100.05),
    fit("peer", 1.0, 0.5, 120.0),
    fit("peer", 0.1, 0.6, 130.0),
    fit("peer", 0.01, 1.5, 100.05),
    fit("peer", 0.001, 4.0, 100.005),
    fit("other", 1.0, 0.1, math.inf),
    fit("other", 10.0, 0.2, math.nan),
    fit("other", 100.0, 9.0, None, race.STOPPED),
]


def test_time_to_an_accuracy():
    (problem,) = curves.problems(ROWS)
    assert problem.entrants == ["maxmargin", "peer", "other"]
    assert problem.seconds_to("maxmargin", 1e-3, "wall") == 2.0
    assert problem.seconds_to("peer", 1e-4, "cpu") == 12.0
    assert problem.seconds_to("maxmargin", 1e-4, "wall") == math.inf
    assert problem.points("other", "wall") == []
    assert problem.known_within() == pytest.approx(1e-5, rel=1e-3)
    assert problem.note("other") == "at 100: > 3 s on each core"
    assert [point.seconds for point in curves.pareto(problem.points("peer", "wall"))] == [0.5, 1.5, 4.0]


def test_verdicts_do_not_flatter():
    (problem,) = curves.problems(ROWS)
    behind, lost, neither = (curves.verdict(problem, target) for target in curves.TARGETS)
    assert (behind.ours, behind.peer, behind.who, behind.ratio) == (2.0, 1.5, "peer", 0.75)
    assert (pages.ratio(lost.ratio), pages.seconds(lost.ours)) == ("only a peer", "not reached")
    assert math.isnan(neither.ratio)
    lines = list(pages.verdict_lines([problem]))
    assert lines[0] == ["t, c", "0.001", "2.00", "1.50", "peer", "0.75", "0.75"]
    assert [line[1] for line in lines] == ["0.001", "0.0001"]
    said = [block.text for block in pages.summary([problem])]
    assert "0 of 1" in said[0]
    assert "A peer is quicker on t, c (0.75, peer)." in said[0]
    assert "only a peer" in said[1]
    assert "median" not in said[1]  # of a ratio of 0


def test_a_search_is_judged_by_its_test_error():
    about = {"task": "t", "case": "search", "kind": race.CASE, "family": "search", "shape": "", "tested": 100}
    found = [("maxmargin", 3.0, 0.1), ("peer", 1.0, 0.14), ("quick", 0.5, 0.1 + 0.03)]
    rows = [
        {
            "task": "t",
            "case": "search",
            "kind": race.SEARCH,
            "entrant": title,
            "rung": 3.0,
            "wall": wall,
            "error": error,
        }
        for title, wall, error in found
    ]
    (problem,) = curves.problems([about, *rows])
    assert problem.error_target() == pytest.approx(0.13)
    assert curves.verdict(problem, problem.error_target() + 1e-12).who == "quick"
    assert problem.seconds_to("peer", problem.error_target(), "wall") == math.inf


# What objectives are made of


def test_objectives_of_several_classes_are_sums_over_binary_problems():
    X, y = two_clouds(3)
    model = SVC(C=2.0, gamma=0.5, tol=1e-6).fit(X.astype(float), y)
    several = {"support": model.support_, "coef": model.dual_coef_, "intercept": model.intercept_, "classes": [0, 1, 2]}
    primal, dual = kernels.values(kernels.Function("rbf", 0.5), X, y, 2.0, several)
    total = 0.0
    for i, j in ((0, 1), (0, 2), (1, 2)):
        rows = (y == i) | (y == j)
        two = SVC(C=2.0, gamma=0.5, tol=1e-6).fit(X[rows].astype(float), y[rows])
        model = {"support": two.support_, "coef": two.dual_coef_[0], "intercept": two.intercept_[0]}
        total += kernels.values(kernels.Function("rbf", 0.5), X[rows], y[rows] - (i + j) / 2, 2.0, model)[0]
    assert primal == pytest.approx(total, rel=1e-5)
    assert primal == pytest.approx(dual, rel=1e-4)


def test_workers_take_several_classes():
    X, y = two_clouds(3)
    fits = [linear_worker.ENTRANTS[name](X.astype(float), y, 1) for name in ("maxmargin-estimator", "LinearSVC")]
    values = [features.objective(X, y, fit("squared_hinge", 1.0, 1e-6), "squared_hinge", 1.0) for fit in fits]
    assert values[0] == pytest.approx(values[1], rel=1e-5)


# Environments


def test_packages_are_found_in_the_first_environment_that_has_them():
    found = environments.installed([sys.executable], ["numpy", "no-such-package"])
    assert found == {"numpy": environments.Installed(sys.executable, np.__version__)}


def test_what_cannot_be_installed_is_kept_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(environments.subprocess, "run", lambda *args, **options: None)
    monkeypatch.setattr(environments, "install", lambda python, what: "pip: no" if "liquidSVM" in what else "")
    assert environments.make(tmp_path) == {"liquidSVM": "pip: no"}
    assert environments.reasons_in(tmp_path) == {"liquidSVM": "pip: no"}
    assert environments.reasons_in(tmp_path / "elsewhere") == {}
    assert environments.pythons_in(tmp_path) == []


def test_reasons_name_no_places():
    errors = "WARNING: x\nERROR: Could not find https://example.org/simple/x\n  error: no /usr/bin/g++ here\n"
    assert environments.reason(errors) == "pip: no ... here"


def test_every_entrant_can_be_asked_for():
    packages = {entrants.OURS, *environments.PACKAGES}
    assert {each.worker for each in entrants.LINEAR} <= set(linear_worker.ENTRANTS)
    assert {each.worker for each in entrants.KERNEL} <= set(kernels.kernel_worker.ENTRANTS)
    assert {each.worker for each in entrants.SEARCH} <= set(searches.search_worker.ENTRANTS)
    assert packages == {each.package for each in entrants.ALL}


def test_marks_of_a_page():
    assert document.marked("**a** < `b*` [c](d.csv)") == '<b>a</b> &lt; <code>b*</code> <a href="d.csv">c</a>'


# What is published


@pytest.mark.skipif(not (PUBLISHED / "arena.csv").exists(), reason="nothing is published yet")
def test_the_published_pages_say_what_their_file_says():
    measured = results.read(PUBLISHED / "arena.csv")
    blocks = pages.content(measured, [each.name for each in sets.sets_of(measured.mode)])
    text = document.as_markdown(pages.TITLE, [*blocks, *pages.links("arena.csv")])
    assert (PUBLISHED / "index.md").read_text() == text
    assert (PUBLISHED / "arena.html").read_text() == document.as_html(pages.TITLE, blocks, PUBLISHED)
    assert {row[results.TASK] for row in measured.rows} == {each.name for each in sets.sets_of(measured.mode)}
    assert PICTURE.exists()
