"""Fits that are cut off and go on from a checkpoint: the same model to the bit as if they had never been."""

import os

import numpy as np
import pytest
from sklearn.base import clone
from solver_cases import untimed

import maxmargin.engine.checkpoint as engine
from maxmargin import SVC, SVCCV, EnclosingBall, LinearSVC, LinearSVCCV
from maxmargin.engine import loop
from maxmargin.estimators import search
from maxmargin.estimators.warm_fits import WarmFits
from maxmargin.solvers import Checkpoint, CheckpointError

ATTRIBUTES = ["coef_", "intercept_", "dual_coef_", "support_", "margin_", "slack_", "C_", "center_", "radius_"]
ATTRIBUTES += ["n_iter_", "stopped_", "reads_", "entries_read_", "kernel_evaluations_", "cache_hits_"]


def classes(n=60, k=3, seed=0, d=4, distance=1.5):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    return rng.normal(size=(n, d)) + distance * rng.normal(size=(k, d))[y], np.array(["a", "b", "c", "d"])[y]


class Killed(BaseException):
    """Stands for the death of the process."""


@pytest.fixture
def killer(monkeypatch):
    """Let the process die after so many files were written; `killer(None)`: never."""
    left, write = [None], engine.write_checkpoint

    def write_and_die(*given):
        write(*given)
        if left[0] is not None:
            left[0] -= 1
            if left[0] <= 0:
                raise Killed

    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.0)
    ticks = iter(range(10**9))
    monkeypatch.setattr(Checkpoint, "due", property(lambda self: next(ticks) % 5 == 0))
    monkeypatch.setattr(Checkpoint, "affords", lambda self, size: True)
    monkeypatch.setattr(os, "fsync", lambda file: None)
    monkeypatch.setattr(engine, "write_checkpoint", write_and_die)

    def set_lives(count):
        left[0] = count

    return set_lives


def go_on(killer, fit, most=30):
    """Fit again and again, each time until it is killed, until one comes to its end; how often was it killed?"""
    rng, deaths = np.random.default_rng(0), 0
    while True:
        killer(int(rng.integers(2, most)) if deaths > 1 else 3)
        try:
            return fit(), deaths
        except Killed:
            deaths += 1
        finally:
            killer(None)


def same_models(one, other):
    for name in ATTRIBUTES:
        if hasattr(other, name):
            np.testing.assert_equal(getattr(one, name), getattr(other, name), err_msg=name)
    several = isinstance(one.certificate_, list) or hasattr(one.certificate_, "names")
    for a, b in zip(one.trace_, other.trace_, strict=True) if several else [(one.trace_, other.trace_)]:
        assert untimed(a) == untimed(b)
    assert str(one.certificate_) == str(other.certificate_)


SLOWLY = {"max_iter": 8, "tol": 1e-9, "random_state": 0}
MODELS = {
    "one-vs-rest": (LinearSVC(solver="sdca", **SLOWLY), 3),
    "two classes": (LinearSVC(solver="sdca", **SLOWLY), 2),
    "online": (LinearSVC(solver="pegasos", max_iter=3, random_state=0), 3),
    "newton": (LinearSVC(solver="newton", **SLOWLY), 3),
    "C by a solver of the slack form": (LinearSVC(solver="simba", C=0.1, max_iter=5, random_state=0), 3),
    "slack by a solver of the form with C": (LinearSVC(solver="sdca", slack=0.1, loss="hinge", random_state=0), 3),
    "slack": (LinearSVC(solver="simba", slack=0.1, max_iter=3, random_state=0), 2),
    "early stopping": (LinearSVC(solver="pegasos", early_stopping=True, max_iter=3, random_state=0), 3),
    "budget": (LinearSVC(solver="sdca", budget=20_000, random_state=0), 3),
    "one-vs-one": (SVC(solver="smo", max_iter=20, random_state=0), 3),
    "one-vs-rest on a kernel": (SVC(solver="smo", multi_class="ovr", max_iter=10, cache_size=0.02), 3),
    "one-vs-one, decomposition": (SVC(solver="decomposition", tol=1e-8), 4),
    "kernel, two classes": (SVC(solver="sdca", max_iter=4, random_state=0), 2),
    "kernel, slack": (SVC(solver="decomposition", slack=0.1), 3),
    "kernel, C by a solver of the slack form": (SVC(solver="sbp", max_iter=10, random_state=0), 2),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_killed_again_and_again(name, tmp_path, killer):
    model, k = MODELS[name]
    X, y = classes(k=k)
    X = X.astype(np.float32) if name == "one-vs-rest on a kernel" else X  # whose rows depend on the cache
    path = tmp_path / "fit"
    found, deaths = go_on(killer, lambda: model.fit(X, y, checkpoint=Checkpoint(path, every_seconds=0)))
    attributes = vars(found).copy()
    assert deaths > 1
    whole = type(model)(**model.get_params()).fit(X, y)
    same_models(found, whole)
    killer(1)  # the fit is at its end: nothing is written
    again = type(model)(**model.get_params()).fit(X, y, checkpoint=Checkpoint(path, every_seconds=0))
    same_models(again, whole)
    assert attributes.keys() == vars(again).keys()


@pytest.mark.parametrize("model", [SVC(C=10.0), SVC(slack=0.1), LinearSVC(), LinearSVC(slack=0.1)], ids=str)
def test_binary_problems_that_are_solved_together(model, tmp_path, killer, monkeypatch):
    """Those that are solved are not solved again, and a fit that has ended is not made again."""
    X, y = np.random.default_rng(0).normal(size=(400, 6)), np.arange(400) % 20
    X += 0.3 * y[:, None]
    whole = clone(model).fit(X, y)
    monkeypatch.setattr("maxmargin.svm.kernel.many_problems.ENTRIES_PER_CALL", 20_000)
    monkeypatch.setattr("maxmargin.svm.linear.one_vs_rest.OPERATIONS_PER_CALL", 20_000)
    fit = lambda: clone(model).fit(X, y, checkpoint=Checkpoint(tmp_path / "fit", every_seconds=0))  # noqa: E731
    found, deaths = go_on(killer, fit, 6)
    assert deaths > 0 or model.slack is not None  # of a fit with a slack only the end is saved
    same_models(found, whole)
    killer(1)
    same_models(fit(), whole)


def saved_fit(path, **changes):
    """A fit whose end is saved; its data and its parameters may be others."""
    X, y = classes()
    given = {"X": X, "y": y, "sample_weight": None} | {
        name: changes.pop(name) for name in ("X", "y", "sample_weight") if name in changes
    }
    model = LinearSVC(**{"solver": "sdca", "max_iter": 3, "tol": 0.0, "random_state": 0} | changes)
    return model.fit(**given, checkpoint=Checkpoint(path, every_seconds=0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"C": 2.0}, r"fit was written for C=1\.0, this call has C=2\.0: delete the checkpoint or give another path"),
        ({"X": classes(seed=1)[0]}, r"written for X="),
        ({"X": classes()[0].astype(np.float32)}, r"written for X='float64.*this call has X='float32"),
        ({"y": classes(k=2)[1]}, r"written for y=.* this call has classes=\"\['a', 'b'\]\""),
        ({"sample_weight": np.linspace(1, 2, 60)}, r"written for weights="),
        ({"loss": "hinge"}, r"loss=None, this call has loss='hinge'"),
        ({"max_iter": 4}, r"max_iter=3, this call has max_iter=4"),
        ({"random_state": 1}, r"random_state=0, this call has random_state=1"),
        ({"solver": "newton"}, r"solver='sdca', this call has solver='newton'"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_refuses_another_fit(changes, message, tmp_path):
    saved_fit(tmp_path / "fit")
    with pytest.raises(CheckpointError, match=message):
        saved_fit(tmp_path / "fit", **changes)
    saved_fit(tmp_path / "fit", n_jobs=2, verbose=0)  # these change nothing


def test_refuses_what_is_no_checkpoint(tmp_path):
    (tmp_path / "notes").write_text("")
    with pytest.raises(CheckpointError, match="notes is a file, but the checkpoint of a fit is a folder"):
        saved_fit(tmp_path / "notes")
    with pytest.raises(CheckpointError, match="is a folder with other files"):
        saved_fit(tmp_path)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_a_seed(tmp_path, killer):
    """Which samples are held out is drawn anew by each fit, but not by one that goes on."""
    X, y = classes()
    model = LinearSVC(solver="pegasos", early_stopping=True, max_iter=5)
    _, deaths = go_on(killer, lambda: model.fit(X, y, checkpoint=Checkpoint(tmp_path / "fit", every_seconds=0)))
    assert deaths > 1
    first = model.coef_.copy()
    assert (model.fit(X, y).coef_ != first).any()
    np.testing.assert_array_equal(model.fit(X, y, checkpoint=tmp_path / "fit").coef_, first)


def test_a_short_fit_leaves_nothing(tmp_path):
    X, y = classes()
    for model in (LinearSVC(), SVC(), EnclosingBall()):
        model.fit(X, y, checkpoint=tmp_path / "fit")
        assert not any(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_in_threads(tmp_path, killer):
    X, y = classes(n=400, k=4)
    parameters = {"solver": "smo", "max_iter": 10, "random_state": 0, "n_jobs": 2}
    found, deaths = go_on(
        killer, lambda: SVC(**parameters).fit(X, y, checkpoint=Checkpoint(tmp_path / "fit", every_seconds=0))
    )
    assert deaths > 1
    same_models(found, SVC(**parameters).fit(X, y))


def test_ball(tmp_path, killer):
    X, _ = classes()
    for kernel in (None, "rbf"):
        path = tmp_path / f"ball of {kernel}"
        model = EnclosingBall(kernel=kernel, nu=0.2, tol=1e-9)
        found, deaths = go_on(killer, lambda m=model, p=path: m.fit(X, checkpoint=Checkpoint(p, every_seconds=0)), 6)
        assert deaths > 0
        same_models(found, EnclosingBall(kernel=kernel, nu=0.2, tol=1e-9).fit(X))
        with pytest.raises(CheckpointError, match=r"nu=0\.2, this call has nu=0\.1"):
            EnclosingBall(kernel=kernel, nu=0.1, tol=1e-9).fit(X, checkpoint=path)


SEARCHES = {
    "linear": (LinearSVCCV(Cs=[0.01, 0.1, 1.0], cv=3, random_state=0, n_jobs=2), 700),
    "linear, slacks": (LinearSVCCV(slacks=[0.01, 0.1, 0.3], cv=3, random_state=0), 60),
    "kernel": (SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], cv=3, random_state=0), 60),
    "kernel, many samples": (SVCCV(Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], cv=3, random_state=0), 400),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_killed_again_and_again(name, tmp_path, killer, monkeypatch):
    """Cells that have a score are not scored again, and the scores are those of a search that was never cut off."""
    monkeypatch.setattr(search, "SCREENING_SAMPLES", 100)  # cells are compared on 100, 300 and all samples
    model, n = SEARCHES[name]
    X, y = classes(n=n, k=2, distance=0.5)
    X = X.astype(np.float32)
    if n > 60:  # so that not all binary problems are solved together
        monkeypatch.setattr(LinearSVC, "_plain_fit", property(lambda self: False))
        monkeypatch.setattr(SVC, "_plain_fit", property(lambda self: False))
    monkeypatch.setattr(Checkpoint, "due", property(lambda self: True))
    fits, fit = [], WarmFits.fit
    monkeypatch.setattr(WarmFits, "fit", lambda *given, **more: fits.append(more) or fit(*given, **more))
    whole = clone(model).fit(X, y)
    needed, fits[:] = len(fits), []
    found, deaths = go_on(killer, lambda: clone(model).fit(X, y, checkpoint=tmp_path / "search"), 6)
    assert deaths > 0
    assert len(fits) <= needed + deaths * 3  # those of the cell that was cut off, on each of three folds
    np.testing.assert_array_equal(found.scores_, whole.scores_)
    assert found.best_params_ == whole.best_params_
    assert found.cv_results_["n_samples"].tolist() == whole.cv_results_["n_samples"].tolist()
    same_models(found.best_estimator_, whole.best_estimator_)
    with pytest.raises(CheckpointError, match="cv=3, this call has cv=4"):
        clone(model).set_params(cv=4).fit(X, y, checkpoint=tmp_path / "search")


def test_a_search_needs_a_seed_that_can_be_given_again(tmp_path):
    X, y = classes()
    with pytest.raises(ValueError, match="give random_state as a whole number or None"):
        LinearSVCCV(random_state=np.random.RandomState(0)).fit(X, y, checkpoint=tmp_path / "search")
