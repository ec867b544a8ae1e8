"""Parts of the papers' experiments whose mistakes no page would show."""

import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

ROOT = Path(__file__).parents[2]
if not (ROOT / "benchmarks" / "papers").exists():
    pytest.skip("benchmarks come with a checkout only", allow_module_level=True)
for path in (ROOT, ROOT / "benchmarks"):
    sys.path.insert(0, str(path))

import sbp  # noqa: E402
from kernel_sets import Case, Data  # noqa: E402

from benchmarks.papers import pegasos_seconds, sbp_figure_1, sbp_figure_2, sbp_libsvm, sbp_table_2  # noqa: E402
from maxmargin.core import water_level  # noqa: E402
from maxmargin.kernels.functions import Rbf  # noqa: E402
from maxmargin.problems import KernelMatrix  # noqa: E402
from maxmargin.solvers import KERNEL_SOLVERS  # noqa: E402

SMALL_CACHE = Namespace(cache=0.1)  # megabytes: rows are evicted, so that what is counted depends on it


@pytest.fixture
def clouds():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 2, 1.0, -1.0)
    X = (rng.normal(size=(300, 5)) + 0.8 * y[:, None]).astype(np.float32)
    return X, y


def kernel_matrix(X, cache=0.1):
    return KernelMatrix(X, Rbf(0.2), cache_size=cache)


# 002 Figure 1


def test_no_block_of_ranks_has_rows_on_both_sides_of_the_level():
    c = np.random.default_rng(0).normal(size=5_000)
    level = water_level(c, 300.0)
    p = np.where(c < level, 1.0, 0.0) / (c < level).sum()
    found = list(sbp_figure_1.blocks(c, p, level))
    assert sum(block["rows"] for block in found) == c.size
    assert sum(block["slack"] for block in found) == pytest.approx(300.0)
    for block in found:
        assert block["p_least"] == block["p_largest"] == (p.max() if block["response"] < level else 0.0)


# 002 Figure 2


def test_the_shared_table_has_the_kernels(clouds, tmp_path):
    X, _ = clouds
    table = sbp_figure_2.SharedTable.at(tmp_path / "table.npy", kernel_matrix(X))
    rows = np.array([3, 299, 0])
    np.testing.assert_allclose(
        table.matrix(SMALL_CACHE).block(rows), kernel_matrix(X).block(rows), atol=0.51 / sbp_figure_2.ONE + 1e-6, rtol=0
    )


@pytest.mark.parametrize("method", sbp_figure_2.METHODS)
def test_reading_the_shared_table_counts_as_evaluating(method, clouds, tmp_path):
    X, y = clouds
    name, options = sbp.METHODS[method]
    table = sbp_figure_2.SharedTable.at(tmp_path / "table.npy", kernel_matrix(X))
    case = Case(lambda: None, 0.2, 1.0, slack=0.05)
    runs = []
    for K in (kernel_matrix(X), table.matrix(SMALL_CACHE)):
        points = list(sbp.points(KERNEL_SOLVERS[name](**options), K, y, case, seed=0, epochs=0.2))
        runs.append([(point["iteration"], point["asked"], point["computed"]) for point in points])
    assert runs[0] == runs[1]


def test_a_table_that_was_interrupted_goes_on(clouds, tmp_path, monkeypatch):
    X, _ = clouds
    monkeypatch.setattr(sbp, "BLOCK", 64)
    K, asked = kernel_matrix(X), []
    block = K.block

    def broken(rows, out):
        if len(asked) == 2:
            raise KeyboardInterrupt
        asked.append(rows[0])
        block(rows, out=out)

    monkeypatch.setattr(K, "block", broken)
    with pytest.raises(KeyboardInterrupt):
        sbp_figure_2.SharedTable.at(tmp_path / "table.npy", K)
    monkeypatch.setattr(K, "block", lambda rows, out: asked.append(rows[0]) or block(rows, out=out))
    table = sbp_figure_2.SharedTable.at(tmp_path / "table.npy", K)
    assert asked == [0, 64, 128, 192, 256]
    np.testing.assert_array_equal(
        table.values, sbp_figure_2.SharedTable.at(tmp_path / "other.npy", kernel_matrix(X)).values
    )


def test_smo_draws_nothing(clouds):
    X, y = clouds
    case = Case(lambda: None, 0.2, 1.0)
    name, options = sbp.METHODS["SMO"]
    runs = [
        list(sbp.points(KERNEL_SOLVERS[name](**options), kernel_matrix(X), y, case, seed, epochs=1)) for seed in (0, 1)
    ]
    for one, other in zip(*runs, strict=True):
        np.testing.assert_array_equal(one["beta"].toarray(), other["beta"].toarray())


# 002 Table 2


@pytest.mark.parametrize("bias", [False, True])
def test_the_interval_holds_the_nu_of_the_optimum(bias, clouds):
    data, case = Data(*clouds, None, None), Case(lambda: None, 0.2, 1.0)
    rough = sbp_table_2.slack_of(data, case, bias, tol=0.01)
    fine = sbp_table_2.slack_of(data, case, bias, tol=1e-6)
    assert rough.least < fine.nu < rough.largest
    assert fine.largest - fine.least < 0.1 * (rough.largest - rough.least)


# 002 section 5


def test_both_sides_of_the_comparison_of_seconds_learn(clouds):
    data, case = Data(*clouds, *clouds), Case(lambda: None, 0.2, 1.0, slack=0.05)
    (peer,) = sbp_libsvm.libsvm(data, case)
    rows = sbp_libsvm.ours(data, case, sbp_libsvm.DEFAULT, seconds=60.0)
    assert peer["error"] < 0.1
    assert rows[-1]["error"] < 0.1
    assert [row["cpu"] for row in rows] == sorted(row["cpu"] for row in rows)


# 003, the 5 seconds


@pytest.fixture
def posts():
    X = sp.random(50, 400, density=0.6, format="csr", dtype=np.float32, random_state=0)
    return X, np.where(np.arange(50) % 2, 1.0, -1.0)


def test_resampled_rows_are_parts_of_posts(posts, monkeypatch):
    monkeypatch.setattr(pegasos_seconds, "BLOCK", 300)
    X, y = posts
    drawn, labels = pegasos_seconds.resampled(X, y, 1_000)
    assert drawn.shape == (1_000, 400)
    # Of about 240,000 entries each is kept or not: the mean of a row is within four deviations of what is wanted.
    assert abs(drawn.nnz / 1_000 - pegasos_seconds.ENTRIES) < 4 * np.sqrt(pegasos_seconds.ENTRIES / 1_000)
    np.testing.assert_allclose(sp.linalg.norm(drawn, axis=1), 1.0, rtol=1e-5)
    words = [set(row.indices) for row in X]
    for row, label in zip(drawn[::100], labels[::100], strict=True):
        assert any(set(row.indices) <= own for own in (words[k] for k in np.flatnonzero(y == label)))
    again, _ = pegasos_seconds.resampled(X, y, 1_000)
    assert (drawn != again).nnz == 0


def test_the_objective_is_that_of_the_problem(posts):
    X, y = posts
    problem = pegasos_seconds.problem_of(X, y)
    w = np.random.default_rng(0).normal(size=400)
    assert pegasos_seconds.objective(X, y, w) == pytest.approx(pegasos_seconds.LAMBDA * problem.evaluate(w).value)


@pytest.mark.parametrize("method", pegasos_seconds.METHODS)
def test_a_run_ends_after_three_looks_at_the_optimum(method, posts):
    X, y = posts
    found = pegasos_seconds.looks(X, y, method, seed=0, best=np.inf, limit=60.0)
    assert len(found) == 3
    assert all(np.diff([look["seconds"] for look in found]) > 0)


def test_seconds_count_to_the_first_look_that_is_not_left_again():
    rows = [
        {"set": "a", "method": "m", "seed": seed, "seconds": seconds, "above": above}
        for seed, aboves in enumerate([(1.0, 0.01, 0.2, 0.01, 0.005), (1.0, 1.0, 0.2, 0.3, 0.5)])
        for seconds, above in zip((1, 2, 3, 4, 5), aboves, strict=True)
    ]
    assert pegasos_seconds.PegasosSeconds().seconds(rows, "a", "m", 0.1) == [4, np.inf]
