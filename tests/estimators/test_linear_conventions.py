"""LinearSVC keeps scikit-learn's conventions: its checks, messages on bad input, callbacks, pipelines and frames."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from clouds import clouds
from linear_cases import CASES, ONE_CLASS, usual_passes
from scikit_checks import each_check
from sklearn.base import clone, is_classifier
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC
from maxmargin.engine.problem import Trait
from maxmargin.solvers import SOLVERS

# Many fits here are short on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


EXACT = [("newton", "squared_hinge"), ("hybrid", "squared_hinge")]  # they can end at the optimum, rounding apart


def to_check(parameters):
    """An estimator for scikit-learn's checks, with C = 1: near the optimum where the solver can.

    Of those that take a slack, and for C search over fits for one, the perceptron alone does so: it is the fastest.
    """
    solver = SOLVERS[parameters["solver"]]()
    tol = 0.0 if (solver.name, parameters.get("loss")) in EXACT else 1e-6 if solver.default_tol else None
    stop = {"tol": tol, "max_iter": min(100, usual_passes(solver))}
    dropped = {"C", "slack"} if solver.name == "perceptron" or Trait.SEPARABLE in solver.requires else {"C"}
    options = {name: value for name, value in parameters.items() if name not in dropped}
    if "slack" in options:
        options["slack"] = 0.005  # within the range of all data that the checks give
    return LinearSVC(**options, **stop, random_state=0)


# The form with C, the form with slack, and partial_fit.
CHECKED_WHOLLY = ["sdca, squared_hinge", "simba", "pegasos, hinge"]


def why_not(estimator):
    """The checks that cannot pass, and why."""
    if (estimator.solver, estimator.loss) in EXACT:
        return {}
    if SOLVERS[estimator.solver].default_tol is None:
        reason = "a solver that draws at random sees other draws where rows are repeated"
    else:
        reason = "a gap of eps leaves sqrt(2 eps) of coef_ open: the 1e-7 of the check asks for one below rounding"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@ONE_CLASS  # a check weighs one class so that the other is never predicted
@each_check(
    [to_check(CASES[name]) for name in CHECKED_WHOLLY],
    [to_check(parameters) for name, parameters in CASES.items() if name not in CHECKED_WHOLLY],
    why_not,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_rows_that_begin_where_no_number_can(quick_of_each_form):
    """Arrays that have come over a network may be views into bytes, at any place."""
    X, y = clouds()
    shifted = np.empty(X.nbytes + 1, dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape)
    shifted[:] = X
    assert not shifted.flags.aligned
    expected = clone(quick_of_each_form).fit(X, y)
    np.testing.assert_array_equal(quick_of_each_form.fit(shifted, y).coef_, expected.coef_)


# Bad input


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("storage", [np.array, np.asfortranarray, sp.csr_array, sp.csc_array])
def test_not_finite(quick_of_each_form, what, storage):
    X, y = clouds()
    X[17, 3] = what
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity \(inf\)) at row 17, column 3"):
        quick_of_each_form.fit(storage(X), y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1.0}, "'C' parameter of LinearSVC must be.*Got -1"),
        ({"C": 0.0}, "'C' parameter of LinearSVC must be.*Got 0"),
        ({"slack": -0.1}, "'slack' parameter of LinearSVC must be.*Got -0.1"),
        ({"C": 2.0, "slack": 0.1}, r"both C=2\.0 and slack=0\.1 were given.*give one"),
        ({"slack": 1.9}, r"slack=1\.9 is outside its range for this data, which is 0 to 0\.\d+"),
        ({"budget": 3}, "budget of 3 entries is too small for one iteration"),
        ({"budget": 0}, "'budget' parameter of LinearSVC must be"),
        ({"max_iter": 0}, "'max_iter' parameter of LinearSVC must be"),
        ({"max_time": 0}, "'max_time' parameter of LinearSVC must be"),
        ({"solver": "sinba"}, "solver must be 'auto', a Solver, or one of .*simba.*; got 'sinba'"),
        ({"solver": "sublinear_perceptron", "C": 2.0}, "takes slack=0 only; got C=2"),
        ({"solver": "pegasos", "slack": 0.1}, r"'pegasos' solves the form with C .*; got slack=0\.1\. Give C .*simba"),
        ({"solver": "simba", "C": 1.0, "loss": "squared_hinge"}, "loss is the hinge; got loss='squared_hinge'.*sdca"),
        ({"slack": 0.1, "loss": "squared_hinge"}, r"slack=0\.1 is of the form with slack, whose loss is the hinge"),
        ({"slack": 0.1, "intercept_scaling": 1.0}, r"whose intercept is free; got intercept_scaling=1\.0.*sdca"),
        ({"intercept_scaling": 0.0}, "'intercept_scaling' parameter of LinearSVC must be"),
        ({"loss": "logistic"}, "'loss' parameter of LinearSVC must be"),
        ({"n_jobs": "many"}, "'n_jobs' parameter of LinearSVC must be"),
        ({"solver": "sublinear_perceptron", "slack": 0.1}, "needs slack 0, for separable data; got slack=0.1"),
        ({"scale": -1.0}, "'scale' parameter of LinearSVC must be"),
        ({"class_weight": {5: 2.0}}, "not in class_weight"),
        ({"certify": "perhaps"}, "'certify' parameter of LinearSVC must be"),
    ],
    ids=str,
)
def test_bad_parameters(parameters, message):
    X, y = clouds()
    with pytest.raises(ValueError, match=message):
        LinearSVC(**parameters).fit(X, y)


def test_bad_shapes(quick_of_each_form):
    X, y = clouds()
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[90, 89\]"):
        quick_of_each_form.fit(X, y[:-1])
    with pytest.raises(ValueError, match="sample_weight"):
        quick_of_each_form.fit(X, y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match=r"(?i)negative"):
        quick_of_each_form.fit(X, y, sample_weight=-np.ones(90))
    with pytest.raises(ValueError, match=r"sample_weight is zero|[Zz]ero"):
        quick_of_each_form.fit(X, y, sample_weight=np.zeros(90))
    with pytest.raises(ValueError, match=r"one class only, 1; .*at least two classes"):
        quick_of_each_form.fit(X, np.ones(90, dtype=int))
    with pytest.raises(ValueError, match=r"y mixes labels of the types NoneType, str; give labels of one type"):
        quick_of_each_form.fit(X, np.array([None, *["yes", "no"] * 44, "no"], dtype=object))
    with pytest.raises(ValueError, match="one class"):
        quick_of_each_form.fit(X, y, sample_weight=y)
    for empty in (X[:0], X[:, :0]):
        with pytest.raises(ValueError, match=r"0 (sample|feature)"):
            quick_of_each_form.fit(empty, y[: len(empty)])
    with pytest.raises(ValueError, match="X has 4 features, but LinearSVC is expecting 5 features"):
        quick_of_each_form.fit(X, y).predict(X[:, :4])
    with pytest.raises(NotFittedError):
        clone(quick_of_each_form).predict(X)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        quick_of_each_form.fit(X, X[:, 0])


def test_errors_about_text_and_missing_labels_say_where_and_what_to_do():
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "city": ["Rome", "Paris", "Rome", "Oslo"]})
    y = ["no", "yes", "no", "yes"]
    with pytest.raises(ValueError, match=r"X holds text in the columns 'city' .*'Rome'.*OneHotEncoder"):
        LinearSVC().fit(X, y)
    model = LinearSVC().fit(X[["age"]], y)
    with pytest.raises(ValueError, match=r"X holds text in the columns 'age' .*'Rome'"):
        model.predict(X[["city"]].rename(columns={"city": "age"}))
    with pytest.raises(ValueError, match=r"Input y contains NaN: leave out the samples without a label"):
        LinearSVC().fit(X[["age"]], pd.Series(["no", np.nan, "no", "yes"]))


def test_a_typo_in_the_solver_is_said_wherever_it_is_met():
    X, y = clouds()
    model = LinearSVC(solver="sinba")
    assert is_classifier(model)
    assert "sinba" in repr(model)
    with pytest.raises(ValueError, match="got 'sinba'"):
        cross_val_score(model, X, y, error_score="raise")


# Callbacks and company


def test_the_stock_progress_bar(quick_of_each_form, capsys):
    X, y = clouds()
    plain = clone(quick_of_each_form).fit(X, y)
    model = quick_of_each_form.set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out
    np.testing.assert_array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_stock_progress_bar_with_many_classes(quick_of_each_form, n_jobs, capsys):
    X, y = clouds(classes=3)
    quick_of_each_form.set_params(n_jobs=n_jobs).set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out


@pytest.mark.parametrize(("classes", "n_jobs"), [(2, 1), (3, 1), (3, 2)])
def test_the_stock_scoring_monitor(quick_of_each_form, classes, n_jobs):
    X, y = clouds(classes=classes)
    monitor = ScoringMonitor(scoring="accuracy")
    model = quick_of_each_form.set_params(n_jobs=n_jobs).set_callbacks(monitor).fit(X, y)
    scores = monitor.get_logs().data_as_pandas["accuracy"]
    assert len(scores) > 10
    assert scores.iloc[0] == pytest.approx(model.score(X, y))
    assert scores.between(0, 1).all()


def test_in_company(quick_of_each_form, capsys):
    X, y = clouds()
    pipeline = make_pipeline(StandardScaler(), clone(quick_of_each_form)).set_callbacks(ProgressBar()).fit(X, y)
    assert pipeline.score(X, y) > 0.9
    assert "LinearSVC" in capsys.readouterr().out
    search = GridSearchCV(clone(quick_of_each_form), {"max_iter": [2, 5]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    search = GridSearchCV(clone(quick_of_each_form), {"max_iter": [2, 5]}, cv=3).set_callbacks(ProgressBar()).fit(X, y)
    assert "100%" in capsys.readouterr().out
    assert cross_val_score(quick_of_each_form, X, y, cv=3).mean() > 0.9


def test_frames_of_polars():
    polars = pytest.importorskip("polars")
    X, y = clouds()
    frame = polars.DataFrame(X, schema=list("abcde"))
    model = LinearSVC(keep_dual=True).fit(frame, polars.Series(y))
    assert list(model.feature_names_in_) == list("abcde")
    np.testing.assert_array_equal(model.predict(frame), LinearSVC().fit(X, y).predict(X))
    assert isinstance(model.support_vectors_, polars.DataFrame)
    names = make_pipeline(StandardScaler().set_output(transform="polars"), LinearSVC()).fit(frame, y)[-1]
    assert list(names.feature_names_in_) == list("abcde")


def test_weights_are_routed():
    X, y = clouds()
    weights = np.where(np.arange(90) < 45, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), LinearSVC(random_state=0))
        pipeline[-1].set_fit_request(sample_weight=True)
        routed = pipeline.fit(X, y, sample_weight=weights)[-1]
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_array_equal(routed.coef_, LinearSVC(random_state=0).fit(scaled, y, sample_weight=weights).coef_)
