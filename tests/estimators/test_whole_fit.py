"""Limits, Ctrl-C and proofs of a fit with several classes: they are those of the whole fit."""

import signal
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, LinearSVC, load_model, save_model
from maxmargin.estimators import rounds
from maxmargin.estimators.limits import Deadline, budget_shares
from maxmargin.estimators.recipe import Recipe
from maxmargin.solvers import Decomposition, Newton


def in_rounds(**parameters):
    """A classifier whose binary problems are solved one by one, as those of large data are."""
    return SVC(solver="decomposition", **parameters)


def blobs(n=600, d=4, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.normal(size=(n, d)) + 6 * rng.normal(size=(classes, d))[y], y


# One budget


@pytest.mark.parametrize("budget", [4_000, 40_001])
def test_the_budget_of_a_linear_model_is_never_exceeded(budget):
    X, y = blobs()
    model = LinearSVC(slack=0.02, budget=budget, random_state=0).fit(X, y)
    assert set(model.stopped_) == {"budget"}
    # Each of the four binary problems ends before the first row or column that does not fit: at most len(X) entries.
    assert budget - 4 * len(X) < model.entries_read_ <= budget


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_the_budget_of_a_kernel_model_is_never_exceeded(multi_class):
    X, y = blobs(n=1200, classes=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(multi_class=multi_class, budget=3_000_000, gamma=1.0, C=100.0).fit(X, y)
    assert 0 < model.kernel_evaluations_ <= 3_000_000


def test_a_budget_that_leaves_a_problem_nothing_is_refused():
    with pytest.raises(ValueError, match="budget=3 is too small to be shared by 6 binary problems"):
        budget_shares(3, [10] * 6)


def test_the_shares_of_a_budget_do_not_depend_on_threads():
    X, y = blobs()
    one, two = (
        LinearSVC(slack=0.02, budget=20_000, n_jobs=n_jobs, random_state=0).fit(X, y).coef_ for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)


# One deadline


class Clock:
    """A clock that goes on by a tick whenever it is looked at."""

    def __init__(self, tick):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now


def test_what_a_problem_leaves_of_the_time_goes_to_those_after_it(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", clock := Clock(0.0))
    deadline = Deadline(12.0)
    assert deadline.share(10, waiting=40, threads=1) == 3.0
    assert deadline.share(10, waiting=40, threads=2) == 6.0
    assert deadline.share(20, waiting=40, threads=1) == 6.0
    clock.now = 2.0
    assert deadline.share(10, waiting=20, threads=1) == 5.0
    clock.now = 13.0
    assert deadline.passed
    assert 0 < deadline.share(10, waiting=20, threads=1) < 1e-6
    assert Deadline(None).share(10, waiting=20, threads=1) is None


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
def test_after_max_time_every_binary_problem_has_a_sensible_model(monkeypatch, multi_class):
    X, y = blobs(n=1500, classes=5)
    monkeypatch.setattr(time, "perf_counter", Clock(0.01))
    model = in_rounds(multi_class=multi_class, max_time=0.3, n_jobs=1)
    with pytest.warns(ConvergenceWarning, match=r"max_time was up: \d+ of \d+ binary problems have a preliminary"):
        model.fit(X, y)
    assert "max_time" in model.stopped_
    assert model.score(X, y) > 0.9


# Rounds


@pytest.fixture
def many_rounds(monkeypatch):
    """Rounds on small data as there are on large data."""
    monkeypatch.setattr(rounds, "FEWEST_SAMPLES", 100)
    monkeypatch.setattr(rounds, "SHRINK", 3)


@pytest.mark.parametrize(
    "estimator",
    [in_rounds(), in_rounds(multi_class="ovr"), LinearSVC(solver="newton"), LinearSVC(slack=0.05)],
    ids=repr,
)
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rounds_do_not_change_the_model(monkeypatch, estimator, n_jobs):
    X, y = blobs(n=900)
    estimator.set_params(n_jobs=n_jobs, random_state=0)
    without = estimator.fit(X, y).decision_function(X)
    monkeypatch.setattr(rounds, "FEWEST_SAMPLES", 100)
    monkeypatch.setattr(rounds, "SHRINK", 3)
    assert rounds.round_sizes(900) == [100, 300]
    np.testing.assert_array_equal(estimator.fit(X, y).decision_function(X), without)


@pytest.mark.parametrize("estimator", [in_rounds(), in_rounds(multi_class="ovr"), LinearSVC(solver="newton")], ids=repr)
def test_a_preliminary_model_stays_where_an_unfinished_one_errs_more(many_rounds, estimator, monkeypatch):
    X, y = blobs(n=900, classes=5)
    solve, wrong = Recipe.fit, []

    def stopped_with_a_wrong_model(self, problem, *arguments, **options):
        model = solve(self, problem, *arguments, **options)
        if options["certify"] and len(wrong) < 2 and problem.y.size > 300:
            wrong.append(model)
            return replace(model, coef=-1.0 * model.coef, intercept=-model.intercept, stopped="max_time")
        return model

    monkeypatch.setattr(Recipe, "fit", stopped_with_a_wrong_model)
    with pytest.warns(ConvergenceWarning, match="2 of .* have a preliminary model only"):
        estimator.set_params(n_jobs=1, max_time=1e6).fit(X, y)
    assert estimator.score(X, y) > 0.9


@pytest.mark.usefixtures("many_rounds", "default_ctrl_c")
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize(
    ("estimator", "solver"),
    [(in_rounds(), Decomposition), (LinearSVC(solver="newton"), Newton)],
    ids=["SVC", "linear"],
)
def test_whenever_ctrl_c_is_pressed_the_model_is_sensible(monkeypatch, share, estimator, solver):
    X, y = blobs(n=900, classes=5)
    steps, press_at, step = 0, -1, solver.step

    def pressing(*arguments):
        nonlocal steps
        steps += 1
        if steps == press_at:
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    monkeypatch.setattr(solver, "step", pressing)
    estimator.set_params(n_jobs=1).fit(X, y)
    steps, press_at = 0, max(1, int(share * steps))
    with pytest.warns(ConvergenceWarning, match="interrupted: .* preliminary model only"):
        model = estimator.fit(X, y)
    assert "interrupted" in model.stopped_
    assert model.score(X, y) > 0.9


@pytest.fixture
def default_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_every_class_is_in_every_round():
    label = np.repeat(np.arange(4), [10_000, 500, 30, 3])
    usable = np.ones(label.size, dtype=bool)
    usable[:100] = False
    chosen = rounds.sample_of_each_class(label, usable, 1000)
    assert usable[chosen].all()
    assert (np.diff(chosen) > 0).all()
    assert np.bincount(label[chosen]).tolist() == [948, 47, 20, 3]


# Proofs of all binary problems


@pytest.mark.parametrize("estimator", [SVC(), LinearSVC()], ids=repr)
def test_certificates_and_traces_are_one_object_each(estimator, tmp_path):
    X, y = blobs(classes=3)
    model = estimator.fit(X, y)
    names = ("0 against 1", "0 against 2", "1 against 2") if isinstance(estimator, SVC) else None
    names = names or ("0 against the rest", "1 against the rest", "2 against the rest")
    assert model.certificate_.names == model.trace_.names == names
    loosest = model.certificate_.loosest
    assert model.certificate_.relative_gap == max(certificate.relative_gap for certificate in model.certificate_)
    assert str(model.certificate_).startswith("all 3 within ")
    assert str(model.certificate_).endswith(f" % of the best possible; the loosest: {loosest}")
    assert model.certificate_[loosest] == model.certificate_[names.index(loosest)]
    save_model(model, tmp_path / "model.mm")
    assert load_model(tmp_path / "model.mm").certificate_ == model.certificate_


def test_verbose_lines_name_the_binary_problem(capsys):
    X, y = blobs(classes=3)
    SVC(verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert {line.partition(":")[0] for line in lines} == {"0 against 1", "0 against 2", "1 against 2"}


def test_what_is_read_on_top_of_a_budget_is_little_and_listed():
    X, y = blobs(n=2000, d=50, classes=2)
    model = LinearSVC(slack=0.05, budget=X.size // 10, random_state=0).fit(X, y)
    assert model.entries_read_ <= X.size // 10
    besides = {purpose: count for purpose, count in model.reads_.items() if not purpose.startswith("learning")}
    assert set(besides) <= {"scale", "solution", "certificate"}
    assert sum(besides.values()) <= 3 * X.size  # norms, values of the model, and the bound: a pass each
