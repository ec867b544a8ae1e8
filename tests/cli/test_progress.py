"""What is shown while a fit runs."""

import io

import numpy as np
import pytest
from rich.console import Console

from maxmargin import SVC, LinearSVC
from maxmargin.cli import progress
from maxmargin.cli.progress import ShowProgress
from maxmargin.estimators.callbacks import FitProgress, SearchProgress


@pytest.fixture
def terminal(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160)
    monkeypatch.setattr(progress, "Console", lambda **options: console)
    return screen


def data(classes=3):
    rng = np.random.default_rng(0)
    y = np.arange(300) % classes
    return rng.normal(size=(300, 4)) + y[:, None], y


def test_one_bar_for_all_binary_problems(terminal):
    SVC().set_callbacks(ShowProgress()).fit(*data())
    shown = terminal.getvalue()
    assert "3 of 3 binary problems solved" in shown
    assert "100%" in shown


def test_the_bar_of_one_problem_shows_its_gap(terminal):
    LinearSVC().set_callbacks(ShowProgress()).fit(*data(classes=2))
    assert "gap 0." in terminal.getvalue()
    assert "stops at 0.1 %" in terminal.getvalue()


def test_a_log_says_where_the_fit_stands(monkeypatch, capsys):
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    show = ShowProgress()
    show.setup(None, None)
    show.on_fit_task_begin(None, None)
    show.teardown(None, None)
    assert capsys.readouterr().err.startswith("maxmargin: training for 0 s")


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (FitProgress(1), ""),
        (FitProgress(1, gap=0.25, tol=0.001), "gap 25 %, stops at 0.1 %"),
        (FitProgress(1, gap=0.25, holdout_error=0.1), "gap 25 %, holdout error 10.00 %"),
        (
            FitProgress(45, 12, name="3 against 5", gap=0.01, tol=0.001, share=0.3),
            "12 of 45 binary problems solved; 3 against 5: gap 1 %, stops at 0.1 %",
        ),
        (SearchProgress(50, 50, 900, "C=1: 0.95"), "50 of 50 cells compared on 900 samples; best so far: C=1: 0.95"),
        (SearchProgress(50, 50, 900, "C=1: 0.95", refit="C=1"), "fitting C=1 on all 900 samples"),
        (FitProgress(45, preliminary=True), "a first model of each of 45 binary problems, on a part of the samples"),
    ],
)
def test_progress_in_words(now, said):
    assert now.sentence() == said


def test_the_rest_is_estimated_only_where_there_is_something_to_tell_it_from():
    assert np.isnan(FitProgress(1, share=0.05).seconds_left(10.0))
    assert FitProgress(1, share=0.25).seconds_left(10.0) == 30.0
    assert SearchProgress(share=0.5).seconds_left(10.0) == 10.0
    assert np.isnan(SearchProgress(share=1.0, refit="C=1").seconds_left(10.0))  # the last fit has its own time
