"""Models of data that lies elsewhere are those of the same data in memory."""

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from block_sources import InBlocks
from covering import every_pair
from sklearn.base import clone

from maxmargin import SVC, SVCCV, EnclosingBall, LinearSVC, LinearSVCCV, RegularizedSVM, SlackSVM, solve
from maxmargin.core.block_cache import BlockCache
from maxmargin.data import as_matrix, open_store
from maxmargin.engine.registry import solvers_for
from maxmargin.kernels import packed_rows
from maxmargin.solvers import SOLVERS, Checkpoint, Sdca

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
@pytest.mark.parametrize("CV", [LinearSVCCV, SVCCV])
@pytest.mark.parametrize("cache_size", [None, 1_000_000], ids=["streamed", "in memory"])
def test_searches_choose_the_same_cell(kind, CV, cache_size, monkeypatch):
    monkeypatch.setattr("maxmargin.estimators.search.SCREENING_SAMPLES", 40)
    data, y = KINDS[kind], THREE if CV is LinearSVCCV else Y
    there = InBlocks(data, rows=15, cache_size=cache_size)
    models = [CV(Cs=[0.01, 1.0], cv=3, random_state=0).fit(samples, y) for samples in (data, there)]
    np.testing.assert_array_equal(models[0].scores_, models[1].scores_)
    np.testing.assert_array_equal(models[0].cv_results_["n_samples"], models[1].cv_results_["n_samples"])
    np.testing.assert_array_equal(models[0].predict(data), models[1].predict(there))
    assert models[0].best_params_ == models[1].best_params_


def test_a_search_streams_what_does_not_fit(monkeypatch):
    """No blocks beyond the cache, less what a part of the samples takes; no part that takes more than half of it."""
    monkeypatch.setattr("maxmargin.estimators.search.SCREENING_SAMPLES", 20)
    monkeypatch.setattr("maxmargin.estimators.small_linear.MOST_ENTRIES", 0)
    monkeypatch.setattr("maxmargin.estimators.small_linear.FEW_ROWS", 0)
    held = []
    reserve = BlockCache._reserve

    def watched(cache, source, block):
        kept = reserve(cache, source, block)
        held.append((cache.held, cache.cache_size))
        return kept

    monkeypatch.setattr(BlockCache, "_reserve", watched)
    row = X[0].nbytes
    data = InBlocks(X, rows=4, columns=1, cache_size=200 * row)
    model = LinearSVCCV(Cs=[1e-4, 0.01, 1.0], cv=3, random_state=0, n_jobs=2).fit(data, Y)
    assert {size for _, size in held} == {200 * row, (200 - 2 * 40) * row}
    assert all(bytes_held <= size for bytes_held, size in held)
    # A part of 60 samples would take 60 and their test samples 60 more.
    assert set(model.cv_results_["n_samples"]) <= {40, 203}
    assert model.best_estimator_.reads_["bytes fetched"] > X.nbytes
    here = LinearSVCCV(Cs=[1e-4, 0.01, 1.0], cv=3, random_state=0).fit(X, Y)
    assert model.best_params_ == here.best_params_
    np.testing.assert_allclose(model.coef_, here.coef_, rtol=0.05)


def test_a_search_on_a_store_goes_on_from_a_checkpoint(tmp_path):
    data, checkpoint = InBlocks(X, rows=4, columns=1), Checkpoint(tmp_path / "ckpt", every_seconds=0)
    search = LinearSVCCV(Cs=[0.01, 1.0], cv=3, random_state=0)
    first = search.fit(data, Y, checkpoint=checkpoint).coef_
    np.testing.assert_array_equal(search.fit(data, Y, checkpoint=checkpoint).coef_, first)
    with pytest.raises(ValueError, match="X"):
        search.fit(InBlocks(2 * X, rows=4, columns=1), Y, checkpoint=checkpoint)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"nu": 0.1}, {"solver": "sublinear_ball", "max_iter": 50}, {"kernel": "rbf", "nu": 0.1}],
    ids=str,
)
def test_balls(kind, options):
    data, there = KINDS[kind], InBlocks(KINDS[kind], rows=4, columns=2)
    balls = [EnclosingBall(**options, random_state=0).fit(given) for given in (data, there)]
    assert balls[0].radius_ == balls[1].radius_
    np.testing.assert_array_equal(balls[0].support_, balls[1].support_)
    np.testing.assert_array_equal(balls[0].predict(data), balls[1].predict(there))
    with pytest.raises(ValueError, match="X has 30 features, but EnclosingBall is expecting 31"):
        balls[1].predict(InBlocks(X[:, :30]))
    if "kernel" not in options:  # else the ledger is that of the kernel
        assert balls[1].reads_["chunks fetched"] > 0


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


@pytest.mark.parametrize("path", ["", "table.parquet", "table.arrow"])
@pytest.mark.parametrize(
    "model",
    [LinearSVC(), SVC(), LinearSVCCV(Cs=[0.1], cv=2), SVCCV(Cs=[0.1], gammas=[0.1], cv=2), EnclosingBall()],
    ids=lambda model: type(model).__name__,
)
def test_names_of_columns_are_kept_and_compared(model, path, tmp_path):
    """As with data frames: other names are an error, and no names a warning."""
    names = [f"f{k}" for k in range(5)]

    def stored(names, name=path):
        table = pa.table(dict(zip(names, X[:, :5].T, strict=True)))
        if name.endswith("parquet"):
            pq.write_table(table, tmp_path / name, row_group_size=50)
        elif name:
            with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
        return open_store(tmp_path / name if name else table, cache_size=8 * 203 * 8)

    there = clone(model).fit(stored(names), Y)
    assert there.feature_names_in_.tolist() == names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(there.predict(stored(names)), clone(model).fit(X[:, :5], Y).predict(X[:, :5]))
    with pytest.raises(ValueError, match=r"feature names should match those that were passed during fit(.|\n)*g0"):
        there.predict(stored(["g0", *names[1:]], f"other{path}" if path else ""))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        there.predict(InBlocks(X[:, :5]))
    with pytest.warns(UserWarning, match="X has feature names, but"):
        clone(model).fit(X[:, :5], Y).predict(stored(names))
