"""Dual coordinate ascent: what it keeps up by steps, computed from scratch, and where prolonged steps lead."""

import numpy as np
import pytest
import scipy.sparse as sp
from covering import every_pair

from maxmargin.data import load_adult
from maxmargin.problems import LOSSES, RegularizedSVM
from maxmargin.solvers import Sdca, solve

UNLIMITED = 2**62
BIASES = {"no bias": {"bias": False}, "penalised": {"intercept_scaling": 2.0}, "free": {}}
losses = pytest.mark.parametrize("loss", LOSSES)
biases = pytest.mark.parametrize("bias", BIASES.values(), ids=BIASES)


def columns_twice(rng, X):
    return np.hstack([X, X, X + 1e-3 * rng.normal(size=X.shape)])


def correlated(rng, X):
    return X @ (1 + 0.01 * rng.normal(size=(X.shape[1], X.shape[1])))


def rows_thrice(rng, X):
    """With labels that differ, so that nothing separates them."""
    return np.tile(X[: len(X) // 3], (3, 1))[rng.permutation(len(X))]


KINDS = [columns_twice, correlated, rows_thrice]
STORAGES = [np.asarray, sp.csr_array]


@losses
@biases
@pytest.mark.parametrize(("kind", "C", "storage"), every_pair(KINDS, [1.0, 1e6], STORAGES))
def test_what_is_kept_up_does_not_drift(loss, bias, kind, C, storage):
    """Steps are prolonged for long after the optimum is reached, where they may be as long as rounding makes them.

    With each loss and bias, every pair of a kind of data, C and a storage.
    """
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(120) % 3 == 0, 1.0, -1.0)
        X = kind(rng, rng.normal(size=(120, 12)) + 0.3 * y[:, None])
        problem, solver = RegularizedSVM(storage(X), y, C, loss=loss, **bias), Sdca()
        state, (upper, _) = solver.start(problem, rng), problem.loss.dual_box(problem.u)
        for _ in range(100):
            solver.step(problem, state, 307, UNLIMITED)
            alpha, w = state.lend()
            assert (alpha >= 0).all()
            assert (alpha <= upper).all()
            # Rows may cancel, and w be as short as it likes: rounding is in proportion to what is added up.
            size = alpha @ np.linalg.norm(X, axis=1)
            np.testing.assert_allclose(w, X.T @ (alpha * y), rtol=0, atol=1e-9 * size)
            assert state.sq_w == pytest.approx(w @ w, rel=1e-9, abs=1e-9 * size**2)
            assert state.imbalance == pytest.approx(alpha @ y, rel=0, abs=1e-9 * alpha.sum())


@losses
@biases
def test_a_sweep_cut_after_any_visit_goes_on_as_if_never_cut(loss, bias):
    """Also after a first visit by which its sample becomes inactive, so that the position in the order stays 0."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(120) % 3 == 0, 1.0, -1.0)
    X = rng.normal(size=(120, 12)) + 0.3 * y[:, None]
    found = []
    for chunk in (6000, 1):
        problem, solver = RegularizedSVM(X, y, 1.0, loss=loss, **bias), Sdca()
        state = solver.start(problem, np.random.default_rng(0))
        for _ in range(0, 6000, chunk):
            solver.step(problem, state, chunk, UNLIMITED)
        found.append((*state.lend(), problem.X.ledger.entries_read))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@losses
@biases
def test_the_dual_does_not_fall(loss, bias):
    """A prolonged step that loses more where it is cut to the box than it wins is taken back."""
    X, y, _, _ = load_adult()
    problem, solver = RegularizedSVM(X[:3000], y[:3000], 1.0, loss=loss, **bias), Sdca()
    found = solve(problem, solver, tol=1e-5, random_state=0)
    assert found.status == "tol"
    state, done, bounds = solver.start(problem, np.random.default_rng(0)), 0, []
    while done < found.n_iter:
        done += solver.step(problem, state, state.active - state.position, UNLIMITED).iterations
        bounds.append(problem.bound(state.lend()[0]))
    # What is maximised with a free bias is not the bound itself, but goes with it.
    slack = 0.01 if problem.free_bias else 1e-12
    assert (np.maximum.accumulate(bounds) - bounds).max() <= slack * found.certificate.primal
    assert bounds[-1] >= (1 - 1e-4) * found.certificate.primal
