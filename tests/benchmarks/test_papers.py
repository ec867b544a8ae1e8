"""The frame of the papers' experiments: it goes on where it stopped, and pages say what the CSV files say."""

import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks" / "papers").exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
for path in (ROOT, ROOT / "benchmarks"):
    sys.path.insert(0, str(path))

import results  # noqa: E402

from benchmarks.papers import frame  # noqa: E402
from benchmarks.papers.experiments import EXPERIMENTS  # noqa: E402

PUBLISHED = ROOT / "docs" / "papers"


class Doubling(frame.Experiment):
    """Made up: y is x^2, times a factor that a test may change."""

    name, paper, what, claim = "000-made-up", "a paper", "a parabola", "y grows as the square of x."
    measurement = "y at three values of x."
    factor, broken = 1.0, ()

    def __init__(self):
        self.ran = []

    def setting(self, mode):
        return f"Three points, {mode}."

    def tasks(self, mode):
        return ["1", "2", "4"]

    def run(self, task, mode):
        if task in self.broken:
            raise KeyboardInterrupt
        self.ran.append(task)
        return [{"x": float(task), "y": self.factor * float(task) ** 2}]

    def law(self, rows):
        return frame.power_law([row["x"] for row in rows], [row["y"] for row in rows])

    def verdict(self, rows):
        return frame.Verdict(frame.REPRODUCED, "It is so.", [f"exponent {self.law(rows)[0]:.2f}"], "It is made so.")

    def tables(self, rows):
        return frame.markdown(["x", "y"], [[row["x"], row["y"]] for row in rows])

    def draw(self, rows, figure):
        figure.subplots().plot([row["x"] for row in rows], [row["y"] for row in rows])


def test_a_run_leaves_figures_picture_and_page(tmp_path):
    experiment = Doubling()
    frame.measure(experiment, results.QUICK, tmp_path)
    frame.write_page(experiment, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {f"000-made-up.{end}" for end in ("csv", "svg", "md")}
    measured = results.read(tmp_path / "000-made-up.csv")
    assert [(row["x"], row["y"]) for row in measured.rows] == [(1, 1), (2, 4), (4, 16)]
    page = (tmp_path / "000-made-up.md").read_text()
    assert "Verdict: reproduced (quick run)" in page
    head = "\n".join(page.splitlines()[:10])
    assert all(text in head for text in (experiment.claim, experiment.measurement, "It is so.", "It is made so."))
    assert "exponent 2.00" in page
    assert "| 4.0 | 16.0 |" in page
    assert measured.made["date"] in page
    assert "--quick" in page
    assert "| **reproduced** | quick |" in frame.index([experiment], tmp_path)


def test_an_interrupted_run_goes_on(tmp_path):
    experiment = Doubling()
    experiment.broken = ("4",)
    with pytest.raises(KeyboardInterrupt):
        frame.measure(experiment, results.QUICK, tmp_path)
    assert not (tmp_path / "000-made-up.csv").exists()
    experiment.broken = ()
    frame.measure(experiment, results.QUICK, tmp_path)
    assert experiment.ran == ["1", "2", "4"]
    assert len(results.read(tmp_path / "000-made-up.csv").rows) == 3


def test_a_task_during_which_ctrl_c_was_pressed_is_not_kept(tmp_path):
    """A solver that is interrupted answers with what it has, which is no result of the experiment."""
    experiment = Doubling()
    run = experiment.run
    experiment.run = lambda task, mode: (task == "2" and signal.raise_signal(signal.SIGINT), run(task, mode))[1]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            frame.measure(experiment, results.QUICK, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [row[results.TASK] for row in results.read(tmp_path / "000-made-up.partial.csv").rows] == ["1"]


def test_what_was_measured_is_kept_unless_asked_for_anew(tmp_path):
    experiment = Doubling()
    for fresh, runs in ((False, 3), (False, 3), (True, 6)):
        frame.measure(experiment, results.QUICK, tmp_path, fresh)
        assert len(experiment.ran) == runs


def test_tasks_of_the_other_mode_are_measured_again(tmp_path):
    experiment = Doubling()
    frame.measure(experiment, results.QUICK, tmp_path)
    frame.measure(experiment, results.FULL, tmp_path)
    assert len(experiment.ran) == 6
    assert results.read(tmp_path / "000-made-up.csv").mode == results.FULL


def test_the_page_comes_from_the_file_alone(tmp_path):
    frame.measure(Doubling(), results.QUICK, tmp_path)
    other = Doubling()
    other.factor = 5.0
    frame.write_page(other, tmp_path)
    assert other.ran == []
    assert "| 4.0 | 16.0 |" in (tmp_path / "000-made-up.md").read_text()


def test_an_experiment_without_a_file_is_marked_as_not_run(tmp_path):
    assert f"| {frame.NOT_RUN} |" in frame.index([Doubling()], tmp_path)


def test_nothing_that_is_not_a_number_becomes_one(tmp_path):
    rows = [{"task": "a", "x": float("nan"), "word": "", "y": 0.1 + 0.2}]
    results.write(tmp_path / "some.csv", results.Measured({"mode": "quick"}, rows))
    (row,) = results.read(tmp_path / "some.csv").rows
    assert np.isnan(row["x"])
    assert row["word"] is None
    assert row["y"] == 0.3


def test_cells_without_a_value_stay_empty_when_a_run_continues(tmp_path):
    file = tmp_path / "some.csv"
    results.write(file, results.Measured({"mode": "quick"}, [{"task": "a", "x": 1.0}, {"task": "b", "y": ""}]))
    for _ in range(2):
        measured = results.read(file)
        assert [row["x"] for row in measured.rows] == [1.0, None]
        assert [row["y"] for row in measured.rows] == [None, None]
        results.write(file, measured)
    assert "None" not in file.read_text()
    assert list(tmp_path.iterdir()) == [file]


def test_a_drawing_has_short_coordinates_and_keeps_its_text(tmp_path):
    results.draw_svg(lambda figure: figure.subplots().set(title="0.12345 of all"), tmp_path / "drawing.svg")
    text = (tmp_path / "drawing.svg").read_text()
    assert "0.12345 of all" in text
    assert re.findall(r"\d\.\d{3,}", text) == ["0.12345"]


def test_the_interval_of_a_power_law():
    """Over 300 samples of noise, the interval of 95 % holds the exponent about so often: 3.3 deviations are allowed."""
    rng = np.random.default_rng(0)
    at = np.geomspace(1, 100, 8)
    laws = [frame.power_law(at, at**-0.5 * np.exp(0.1 * rng.normal(size=8))) for _ in range(300)]
    held = np.mean([low <= -0.5 <= high for _, low, high in laws])
    assert abs(held - 0.95) < 3.3 * np.sqrt(0.95 * 0.05 / 300)


def test_too_few_points_give_no_interval_and_show_no_exponent():
    for points in (0, 1, 2):
        law = frame.power_law([1.0, 2.0][:points], [1.0, 4.0][:points])
        assert not law.may_be_at_most(5)
        assert not law.may_be_at_least(-5)
    law = frame.power_law([1.0, 2.0, 4.0], [1.0, 4.0, 16.0])
    assert [law.may_be_at_most(exponent) for exponent in (1.9, 2, 2.1)] == [False, True, True]
    assert [law.may_be_at_least(exponent) for exponent in (1.9, 2, 2.1)] == [True, True, False]
    assert str(law) == "2.00 (2.00 to 2.00)"


@pytest.mark.parametrize(
    ("values", "first"), [([3, 1, 3, 1, 1], 3), ([1, 1], 0), ([3, 3], None), ([1, 3], None), ([], None)]
)
def test_the_place_from_which_on_values_stay_at_a_level(values, first):
    assert frame.staying(values, 2) == first


def test_the_word_for_several_parts():
    assert [frame.overall(parts) for parts in ([True, True], [True, False], [False], [])] == [
        frame.REPRODUCED,
        frame.PARTLY,
        frame.NOT_REPRODUCED,
        frame.NOT_REPRODUCED,
    ]


PUBLISHED_EXPERIMENTS = [e for e in EXPERIMENTS if (PUBLISHED / f"{e.name}.csv").exists()]


@pytest.mark.parametrize("experiment", PUBLISHED_EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_published_pages_say_what_their_files_say(experiment):
    measured = results.read(PUBLISHED / f"{experiment.name}.csv")
    assert (PUBLISHED / f"{experiment.name}.md").read_text() == frame.page(experiment, measured)
    assert (PUBLISHED / f"{experiment.name}.svg").exists()
    assert {row[results.TASK] for row in measured.rows} == set(experiment.tasks(measured.mode))


@pytest.mark.parametrize("experiment", PUBLISHED_EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_published_pictures_can_be_drawn_from_their_files(experiment):
    figure = Figure()
    experiment.draw(results.read(PUBLISHED / f"{experiment.name}.csv").rows, figure)
    assert figure.axes


def test_the_published_table_of_verdicts():
    assert (PUBLISHED / "index.md").read_text() == frame.index(EXPERIMENTS, PUBLISHED)
