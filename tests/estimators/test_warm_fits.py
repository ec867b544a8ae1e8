"""Fits that follow each other on the same samples: what they share, and what each part has for itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_moons

from maxmargin import SVC, LinearSVC
from maxmargin.estimators import small_rows
from maxmargin.estimators.warm_fits import WarmFits
from maxmargin.svm.search_for_C import SearchForC


def moons(n=200):
    return make_moons(n, noise=0.3, random_state=0)


def test_kernels_of_few_samples_are_computed_once():
    X, y = moons()
    fits = WarmFits(SVC(random_state=0), X, y)
    computed = fits.fit_.rows.ledger.entries_read
    assert computed <= 0.6 * 208**2  # half of the matrix, with some places that fill up its blocks
    for C in (0.1, 1.0, 10.0):
        found = fits.among(np.arange(150)).fit(C=C).model()
        assert found.certificate_.relative_gap <= 1e-3
    assert fits.fit_.rows.ledger.entries_read == computed


def test_the_model_of_a_part_is_that_of_a_fit_on_it():
    X, y = moons()
    part = np.arange(0, 200, 2)
    fits = WarmFits(SVC(tol=1e-8, random_state=0, gamma=1.0), X, y)
    direct = SVC(tol=1e-8, gamma=1.0, C=3.0).fit(X[part], y[part])
    np.testing.assert_allclose(
        fits.among(part).fit(C=3.0).model().decision_function(X), direct.decision_function(X), atol=1e-5
    )


@pytest.mark.parametrize("estimator", [LinearSVC(random_state=0), SVC(random_state=0)])
def test_the_search_for_the_C_of_a_slack_begins_near_that_of_the_last_one(monkeypatch, estimator):
    begun = []

    def begin(slack, C, tol):
        begun.append(float(C[0]))
        return SearchForC(slack, C, tol)

    monkeypatch.setattr(small_rows, "SearchForC", begin)
    X, y = moons()
    fits = WarmFits(estimator, X, y)
    fits.fit(slack=0.2)
    after_first = float(fits.fit_.rows.C_times_slack[0])
    found = fits.fit(slack=0.1).model()
    assert begun[1] == pytest.approx(after_first / 0.1) != begun[0]
    assert found.certificate_.relative_gap <= 1e-3


def test_parts_do_not_disturb_each_other():
    """What a fit keeps with its rows, and the random numbers that it uses, are those of its part alone."""
    X = sp.random(200, 2000, density=0.02, format="csr", random_state=0)
    y = (X @ np.random.default_rng(0).normal(size=2000) > 0).astype(int)
    parts = [np.arange(0, 150), np.arange(50, 200)]
    for model, data in ((LinearSVC(loss="hinge", random_state=0), X), (SVC(random_state=0), X.toarray())):
        first, second = (WarmFits(model, data, y) for _ in range(2))
        forward = [fits.fit(C=1.0) for fits in [first.among(part) for part in parts]]
        backward = [fits.fit(C=1.0) for fits in reversed([second.among(part) for part in parts])]
        for one, other in zip(forward, reversed(backward), strict=True):
            np.testing.assert_array_equal(one.models.coefficients, other.models.coefficients)
        assert forward[0].fit.rows is not forward[1].fit.rows


def test_all_reads_are_counted():
    X = sp.random(300, 3000, density=0.02, format="csr", random_state=0)
    y = (X @ np.random.default_rng(0).normal(size=3000) > 0).astype(int)
    fits = WarmFits(LinearSVC(loss="hinge", random_state=0), X, y)
    for C in (1.0, 10.0, 100.0):
        before = fits.fit_.rows.ledger.entries_read
        passes = fits.fit(C=C).models.n_iter[0]
        assert passes >= 2
        assert fits.fit_.rows.ledger.entries_read - before >= X.nnz  # each begins with a pass over all samples
