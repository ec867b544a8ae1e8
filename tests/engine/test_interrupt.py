"""Ctrl-C: a request to finish to a fit of the user's own, the end of everything to a fit that is one of many."""

import signal

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.solvers import Decomposition, listen_for_interrupt


@pytest.fixture
def _default_ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


pytestmark = pytest.mark.usefixtures("_default_ctrl_c")


class PressCtrlC:
    """A linear kernel that presses Ctrl-C when it is asked for the n-th time."""

    calls = 0

    def __init__(self, at):
        self.at = at

    def __call__(self, X, Z):
        PressCtrlC.calls += 1
        if PressCtrlC.calls == self.at:
            signal.raise_signal(signal.SIGINT)
        return X @ Z.T


@pytest.fixture
def data():
    PressCtrlC.calls = 0
    rng = np.random.default_rng(0)
    y = np.where(np.arange(120) % 2, 1, -1)
    return rng.normal(size=(120, 3)) + 0.3 * y[:, None], y


def slow(at=12):
    return SVC(kernel=PressCtrlC(at), solver=Decomposition(block=2), tol=0.0)


def test_a_fit_of_the_users_own_keeps_its_model(data):
    X, y = data
    model = slow().fit(X, y)
    assert model.stopped_ == "interrupted"
    assert model.predict(X).shape == y.shape


def test_so_does_a_fit_in_a_pipeline(data):
    X, y = data
    assert make_pipeline(StandardScaler(), slow()).fit(X, y)[-1].stopped_ == "interrupted"


@pytest.mark.parametrize(
    "job",
    [
        lambda X, y: GridSearchCV(slow(), {"C": [1.0, 2.0]}).fit(X, y),
        lambda X, y: GridSearchCV(slow(), {"C": [1.0, 2.0]}, error_score=0.0).fit(X, y),
        lambda X, y: cross_validate(make_pipeline(StandardScaler(), slow()), X, y),
        lambda X, y: BaggingClassifier(slow(), n_estimators=3).fit(X, y),
        lambda X, y: OneVsRestClassifier(slow()).fit(X, np.arange(len(y)) % 3),
        lambda X, y: Parallel(n_jobs=1)(delayed(slow().fit)(X, y) for _ in range(3)),
    ],
    ids=["search", "search with error_score", "cross_validate", "bagging", "one-vs-rest", "joblib"],
)
def test_a_larger_job_ends(data, job):
    with pytest.raises(KeyboardInterrupt):
        job(*data)
    assert PressCtrlC.calls < 40  # nothing was begun anew
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_fits_in_threads_end(data):
    with pytest.raises(KeyboardInterrupt):
        Parallel(n_jobs=2, backend="threading")(delayed(slow().fit)(*data) for _ in range(3))


def test_a_press_is_remembered_after_its_answer():
    """Of many fits in one block, one answers; the block still knows that it is to end."""
    with listen_for_interrupt() as outer:
        assert not outer.ever_asked
        with listen_for_interrupt() as inner:
            signal.raise_signal(signal.SIGINT)
            assert inner.answer()
        assert not outer.asked
        assert outer.ever_asked
