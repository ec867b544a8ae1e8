"""SVC keeps scikit-learn's conventions: its checks, messages on bad input, callbacks and pipelines."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_cases import close, clouds
from scikit_checks import each_check
from sklearn.calibration import CalibratedClassifierCV
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import make_moons
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import SVC
from maxmargin.engine.problem import Trait
from maxmargin.problems import SlackSVM
from maxmargin.solvers import KERNEL_SOLVERS, KernelSublinearPerceptron, Newton


class Gaussian:
    """A function with a name that is the same in every process, as tests that run side by side need it."""

    def __call__(self, X, Z):
        return rbf_kernel(X, Z)

    def __repr__(self):
        return "Gaussian()"


def to_check(name):
    """Near the optimum where the solver comes there soon, else after a while."""
    if name in ("decomposition", "smo"):
        return close(solver=name)
    if name == "sublinear_perceptron":  # of a seventh of the rounds, as a check asks for 1000 passes
        return SVC(solver=KernelSublinearPerceptron(constant=10), max_iter=2, random_state=0)
    solver = KERNEL_SOLVERS[name]
    if solver.solves is not SlackSVM:
        return SVC(solver=name, max_iter=3, random_state=0)
    # For C it would search over fits for a slack, whichever the solver: LinearSVC's perceptron is checked like that.
    slack = None if Trait.SEPARABLE in solver.requires else 0.05
    return SVC(solver=name, slack=slack, max_iter=2, random_state=0)


def why_not(estimator):
    """The checks that cannot pass, and why."""
    reason = "rows of the kernel are kept in float32: the 1e-7 of the check is below their rounding"
    checks = {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}
    if estimator.kernel == "precomputed":
        checks["check_classifiers_one_label_sample_weights"] = "what it gives is not symmetric, so no kernel"
    return checks


CHECKED_WHOLLY = [
    to_check("decomposition"),
    to_check("sbp"),  # with a slack
    close(multi_class="ovr"),
    close(kernel="linear"),
    close(kernel="precomputed"),
    close(kernel=Gaussian()),
]
BY_SOLVER = [to_check(name) for name in KERNEL_SOLVERS if name not in ("decomposition", "sbp")]


@pytest.mark.filterwarnings("ignore:.*the same class")  # a check weighs one so that the other is never predicted
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # some are short on purpose
@each_check(CHECKED_WHOLLY, BY_SOLVER, why_not)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_verbose(capsys):
    X, y = clouds()
    model = SVC(verbose=2).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.trace_)
    assert "kernel evaluations" in lines[-1]
    SVC(verbose=0).fit(X, y)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("classes", [2, 3])
def test_callbacks(classes, capsys):
    X, y = clouds(classes=classes)
    monitor = ScoringMonitor(scoring="accuracy")
    model = SVC(max_iter=50).set_callbacks(ProgressBar(), monitor).fit(X, y)
    assert "100%" in capsys.readouterr().out
    scores = monitor.get_logs().data_as_pandas["accuracy"]
    assert scores.iloc[0] == pytest.approx(model.score(X, y))
    np.testing.assert_array_equal(model.dual_coef_, SVC(max_iter=50).fit(X, y).dual_coef_)


def test_in_company():
    X, y = make_moons(200, noise=0.2, random_state=0)
    search = GridSearchCV(SVC(), {"C": [0.1, 10], "gamma": ["scale", 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    calibrated = CalibratedClassifierCV(SVC(), ensemble=False).fit(X, y)
    probabilities = calibrated.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert make_pipeline(StandardScaler(), SVC()).fit(X, y).score(X, y) > 0.9
    many = CalibratedClassifierCV(SVC(), cv=3).fit(*clouds(classes=3))
    assert many.predict_proba(X[:, [0, 1, 0, 1, 0]]).shape == (200, 3)


# Bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1.0}, "'C' parameter of SVC must be.*Got -1"),
        ({"C": 2.0, "slack": 0.1}, r"both C=2\.0 and slack=0\.1 were given.*give one"),
        ({"solver": "decompose"}, "solver must be 'auto', a Solver, or one of .*decomposition.*; got 'decompose'"),
        ({"solver": "newton"}, "solver 'newton' is a solver of LinearSVC.*one of decomposition"),
        ({"solver": Newton()}, "solver 'newton' is a solver of LinearSVC"),
        ({"slack": 0.1, "solver": "pegasos"}, r"'pegasos' solves the form with C .*; got slack=0\.1"),
        ({"kernel": "gauss"}, "'kernel' parameter of SVC must be.*'rbf'.*Got 'gauss'"),
        ({"gamma": -0.5}, "'gamma' parameter of SVC must be"),
        ({"gamma": "wide"}, "'gamma' parameter of SVC must be"),
        ({"degree": -1, "kernel": "poly"}, "'degree' parameter of SVC must be"),
        ({"multi_class": "all"}, "'multi_class' parameter of SVC must be"),
        ({"max_iter": 0}, "'max_iter' parameter of SVC must be"),
        ({"max_iter": -2}, "'max_iter' parameter of SVC must be"),
        ({"cache_size": 0}, "'cache_size' parameter of SVC must be"),
        ({"cache_size": 1e-3}, r"cache_size=0\.001 megabytes.*give at least 0\.1"),
        ({"budget": 3}, "budget of 3 .*is too small for one iteration"),
        ({"kernel": "precomputed"}, r"square.*\(90, 5\)"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else None,
)
def test_bad_parameters(parameters, message):
    X, y = clouds()
    with pytest.raises(ValueError, match=message):
        SVC(**parameters).fit(X, y)


def test_bad_data():
    X, y = clouds()
    with pytest.raises(ValueError, match=r"returned an array of shape \(\d+,\); expected"):
        SVC(kernel=lambda A, B: np.ones(len(A))).fit(X, y)
    K = X @ X.T
    K[3, 7] += 1
    with pytest.raises(ValueError, match="symmetric"):
        SVC(kernel="precomputed").fit(K, y)
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        SVC(kernel="precomputed").fit(sp.csr_array(X @ X.T), y)
    with pytest.raises(ValueError, match="features"):
        SVC(kernel="precomputed").fit(X @ X.T, y).predict(X)
    for what in (np.nan, np.inf):
        for storage in (np.asarray, sp.csr_array):
            bad = X.copy()
            bad[17, 3] = what
            with pytest.raises(ValueError, match=r"X contains (NaN|infinity \(inf\)) at row 17, column 3"):
                SVC().fit(storage(bad), y)
    with pytest.raises(ValueError, match="one class"):
        SVC().fit(X, np.zeros(90))
    with pytest.raises(ValueError, match=r"one class"):
        SVC().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        SVC().fit(X, y, sample_weight=-np.ones(90))
