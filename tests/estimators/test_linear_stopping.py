"""LinearSVC: stop rules, threads and Ctrl-C."""

import os
import signal
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp
from clouds import clouds
from linear_cases import ONE_CLASS
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC

# Many fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Stop rules


def test_early_stopping(quick):
    X, y = clouds(n=200)
    model = quick.set_params(early_stopping=True, validation_fraction=0.2, max_iter=50).fit(X, y)
    errors = model.trace_.column("holdout_error")
    assert np.isfinite(errors).all()
    assert model.reads_["holdout"] == 40 * 5 * len(model.trace_)
    assert model.stopped_ in ("early_stopping", "max_iter", "finished", "tol")
    with pytest.raises(ValueError, match=r"early_stopping cannot hold out 0.2 of 3 samples"):
        quick.fit(X[:3], y[:3])


def test_early_stopping_is_not_fooled_by_a_lucky_start():
    X, y = make_classification(1000, 100, n_informative=30, random_state=0)
    models = [LinearSVC(slack=0.05, early_stopping=True, random_state=seed).fit(X, y) for seed in range(5)]
    assert np.median([model.score(X, y) for model in models]) > 0.75
    assert all(model.stopped_ == "early_stopping" for model in models)


def test_budget(quick):
    X, y = clouds()
    model = quick.set_params(budget=4500, max_iter=None).fit(X, y)
    assert model.entries_read_ <= 4500
    assert model.stopped_ in ("budget", "finished", "tol")


@ONE_CLASS
def test_verbose(quick_of_each_form, capsys):
    X, y = clouds()
    model = quick_of_each_form.set_params(verbose=2, certify="checks").fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.trace_)
    assert lines[:-1] == [row.line() for row in model.trace_[:-1]]
    assert lines[-1].startswith(f"iteration {model.trace_[-1].iteration}, ")
    assert "entries read, value" in lines[-1]
    quick_of_each_form.set_params(verbose=1).fit(X, y)
    fewer = capsys.readouterr().out.splitlines()
    assert 1 < len(fewer) < 12
    quick_of_each_form.set_params(verbose=0).fit(X, y)
    assert capsys.readouterr().out == ""


# Threads


def test_threads_change_no_bit(quick):
    X, y = clouds(classes=4)
    one, two = (clone(quick).set_params(n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.intercept_, two.intercept_)
    assert one.reads_ == two.reads_
    assert one.certificate_ == two.certificate_


@pytest.mark.parametrize("n_jobs", [-1, 8])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array, sp.csc_array])
def test_threads_share_an_index_of_the_other_axis(n_jobs, storage):
    """SIMBA reads rows and columns: of a compressed matrix, one of them must be built, once."""
    X, y = clouds(classes=4)
    one, many = (
        LinearSVC(slack=0.02, solver="simba", max_iter=1, random_state=0, n_jobs=n).fit(storage(X), y)
        for n in (1, n_jobs)
    )
    np.testing.assert_array_equal(one.coef_, many.coef_)
    assert one.reads_ == many.reads_
    assert one.reads_.get("index", 0) == (0 if storage is np.array else 450)


def test_no_threads_at_all_are_refused():
    X, y = clouds(classes=3)
    with pytest.raises(ValueError, match=r"n_jobs is 0; expected .* at least 1, or -1 for all"):
        LinearSVC(n_jobs=0).fit(X, y)


def test_an_error_in_a_thread_is_raised():
    class Broken:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("broken")

    X, y = clouds(classes=4)
    with pytest.raises(RuntimeError, match="broken"):
        LinearSVC(slack=0.02, n_jobs=2).set_callbacks(Broken()).fit(X, y)


# Ctrl-C


class Interrupter:
    """A callback that presses Ctrl-C when the first part of the work is done."""

    def __init__(self, times):
        self.times = times

    def setup(self, estimator, context):
        self.seen = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        self.seen += 1
        if self.seen == 3:
            for _ in range(self.times):
                os.kill(os.getpid(), signal.SIGINT)


def warns_of_preliminary_models():
    return pytest.warns(ConvergenceWarning, match="binary problems have a preliminary model only")


@pytest.fixture
def default_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("classes", [2, 4])
def test_ctrl_c_keeps_the_model(quick, classes, default_ctrl_c):
    X, y = clouds(classes=classes)
    model = quick.set_params(max_iter=2 * quick.max_iter, n_jobs=1).set_callbacks(Interrupter(1))
    with warns_of_preliminary_models() if classes > 2 else nullcontext():
        model.fit(X, y)
    stopped = [model.stopped_] if classes == 2 else model.stopped_
    assert stopped == ["interrupted"] * len(stopped)
    trace = model.trace_ if classes == 2 else model.trace_[0]
    assert 0 < trace[-1].iteration < quick.max_iter * len(y)  # as many visits to samples, if not iterations
    assert model.predict(X).shape == y.shape
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if classes > 2:
        assert model.certificate_[0]
        assert "a preliminary model" in str(model.certificate_[-1])
        assert model.score(X, y) > 0.5  # of four classes, three of which have a preliminary model only
    assert model.decision_function(X).shape == ((90,) if classes == 2 else (90, classes))


def test_ctrl_c_reaches_every_thread(default_ctrl_c):
    X, y = clouds(classes=4)
    # More iterations than there is time for.
    model = LinearSVC(slack=0.02, solver="simba", max_iter=5_000, n_jobs=2, random_state=0)
    with warns_of_preliminary_models():
        model.set_callbacks(Interrupter(1)).fit(X, y)
    assert model.stopped_ == ["interrupted"] * 4
    assert 0 < model.n_iter_ < 5_000
    assert [bool(certificate) for certificate in model.certificate_] == [True, True, False, False]


def test_a_second_ctrl_c_raises(quick_of_each_form, default_ctrl_c):
    X, y = clouds()
    with pytest.raises(KeyboardInterrupt):
        quick_of_each_form.set_callbacks(Interrupter(2)).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
