"""Models of data that lies elsewhere are those of the same data in memory."""

import numpy as np
import pytest
import scipy.sparse as sp
from block_sources import InBlocks
from covering import every_pair

from maxmargin import SVC, SVCCV, LinearSVC, LinearSVCCV, RegularizedSVM, SlackSVM, solve
from maxmargin.data import as_matrix
from maxmargin.engine.registry import solvers_for
from maxmargin.kernels import packed_rows
from maxmargin.solvers import SOLVERS, Sdca

RNG = np.random.default_rng(0)
Y = np.where(RNG.random(203) < 0.5, -1.0, 1.0)
X = RNG.normal(size=(203, 31)) + 0.3 * Y[:, None]
THREE = np.digitize(X[:, 0] + 0.3 * RNG.normal(size=203), [-0.5, 0.5])
KINDS = {"dense": X, "float32": X.astype(np.float32), "sparse": sp.csr_array(np.where(np.abs(X) > 1, X, 0.0))}
PROBLEMS = {"C": lambda data: RegularizedSVM(data, Y, C=0.1), "slack": lambda data: SlackSVM(data, Y, slack=0.1)}
ALL = [(form, name) for form, problem in PROBLEMS.items() for name in solvers_for(problem(X))]


@pytest.mark.parametrize(("form", "name"), ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_every_solver_finds_the_same_bits_if_one_block_holds_all_rows(form, name, kind):
    data = KINDS[kind]
    results = [
        solve(PROBLEMS[form](given), SOLVERS[name](), max_iter=200, random_state=0)
        for given in (data, InBlocks(data, rows=300))
    ]
    np.testing.assert_array_equal(results[0].solution.w, results[1].solution.w)
    assert results[0].reads["learning"] == results[1].reads["learning"]


@pytest.mark.parametrize(("form", "name"), ALL)
def test_every_solver_reads_small_blocks_through_a_small_cache(form, name):
    data = InBlocks(X, rows=2, columns=1)
    result = solve(PROBLEMS[form](data), SOLVERS[name](), max_iter=200, random_state=0)
    again = solve(PROBLEMS[form](data), SOLVERS[name](), max_iter=200, random_state=0)
    np.testing.assert_array_equal(result.solution.w, again.solution.w)
    assert result.reads["bytes fetched"] > X.nbytes


def test_sdca_reads_each_block_once_a_sweep():
    data = InBlocks(X, rows=2, columns=1)
    problem = RegularizedSVM(as_matrix(data), Y, C=0.1)
    solve(problem, Sdca(shrink=False, extrapolate=0), max_iter=5 * 203, certify=False, random_state=0)
    # One pass for the norms of the rows, and one for each of five sweeps; the last block of a sweep may be the first of
    # the next, and a few may be left in the cache.
    assert 4.5 * 102 < len(data.rows.reads) <= 6 * 102


LABELS = {"two": Y, "three": THREE}
OPTIONS = [{}, {"solver": "sdca"}, {"slack": 0.1}, {"slack": 0.1, "budget": 5000}, {"early_stopping": True}]


@pytest.mark.parametrize(("kind", "classes", "options"), every_pair(KINDS, LABELS, OPTIONS), ids=str)
def test_linear_models(kind, classes, options):
    data, y, options = KINDS[kind], LABELS[classes], {"C": 0.1, "random_state": 0, **options}
    if "slack" in options:
        del options["C"]
    if options.get("early_stopping"):
        options["solver"] = "pegasos"
    here = LinearSVC(**options).fit(data, y)
    there = LinearSVC(**options).fit(InBlocks(data, rows=4, columns=2), y)
    # Solvers that visit rows one by one visit them in another order.
    if options.get("solver") is None:
        np.testing.assert_array_equal(here.coef_, there.coef_)
    assert there.reads_["chunks fetched"] > 0
    np.testing.assert_array_equal(there.predict(InBlocks(data)), there.predict(data))
    np.testing.assert_allclose(there.decision_function(InBlocks(data)), there.decision_function(data), rtol=1e-5)


@pytest.mark.parametrize(("kind", "classes", "solver"), every_pair(KINDS, LABELS, ["auto", "decomposition", "sbp"]))
def test_kernel_models_are_the_same_bits(kind, classes, solver, monkeypatch):
    data, y, options = KINDS[kind], LABELS[classes], {"solver": solver, "random_state": 0}
    if solver == "sbp":
        options |= {"slack": 0.1, "max_iter": 20}
    monkeypatch.setattr(packed_rows, "MOST_IN_MEMORY", 1000)
    monkeypatch.setattr("maxmargin.estimators.kernel.MOST_IN_MEMORY", 1000)
    here, there = (SVC(**options).fit(given, y) for given in (data, InBlocks(data, rows=4)))
    np.testing.assert_array_equal(here.support_, there.support_)
    np.testing.assert_array_equal(here.intercept_, there.intercept_)
    np.testing.assert_array_equal(there.predict(InBlocks(data, rows=4)), here.predict(data))


def test_errors_name_what_is_wrong():
    model = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match="X has 30 features, but LinearSVC is expecting 31"):
        model.predict(InBlocks(X[:, :30]))
    with pytest.raises(ValueError, match="X has 203 rows, but y has 202 labels"):
        model.fit(InBlocks(X), Y[1:])
    bad = X.copy()
    bad[150, 7] = np.nan
    for estimator in (LinearSVC(), LinearSVC(scale=1.0, slack=0.1), SVC()):
        with pytest.raises(ValueError, match="X contains NaN at row 150, column 7"):
            estimator.fit(InBlocks(bad), Y)
    with pytest.raises(ValueError, match="X contains NaN at row 150, column 7"):
        model.predict(InBlocks(bad))
    with pytest.raises(OSError, match="block 3 cannot be read"):
        LinearSVC(solver="sdca").fit(InBlocks(X, fails=[3]), Y)


@pytest.mark.parametrize("kind", KINDS)
def test_searches_read_the_samples_into_memory(kind):
    data = KINDS[kind]
    here, there = (LinearSVCCV(Cs=[0.01, 1.0], cv=3, random_state=0).fit(X, THREE) for X in (data, InBlocks(data)))
    np.testing.assert_array_equal(here.coef_, there.coef_)
    np.testing.assert_array_equal(here.predict(data), there.predict(InBlocks(data)))
    with pytest.raises(ValueError, match="a search has its samples in memory, and these take"):
        SVCCV(cv=3).fit(InBlocks(data, cache_size=100), THREE)


def test_support_vectors_are_read_when_they_are_asked_for():
    data = InBlocks(X)
    model = LinearSVC(C=0.1, keep_dual=True).fit(data, Y)
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])


@pytest.mark.parametrize("kind", KINDS)
def test_partial_fit(kind):
    data = KINDS[kind]
    here, there = (
        LinearSVC(solver="pegasos", random_state=0).partial_fit(X, Y, classes=[-1, 1])
        for X in (data, InBlocks(data, rows=300))
    )
    np.testing.assert_array_equal(here.coef_, there.coef_)


def test_many_classes_share_a_small_cache_in_many_threads():
    """Each thread has a block at hand, so that there are no more threads than blocks that fit."""
    data, y = InBlocks(X, rows=2, columns=1), np.arange(203) % 12
    model = LinearSVC(C=1e-4, solver="sdca", n_jobs=16, random_state=0).fit(data, y)
    alone = LinearSVC(C=1e-4, solver="sdca", n_jobs=1, random_state=0).fit(data, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
