"""What several rooms test with."""

import gc
from pathlib import Path
from types import SimpleNamespace

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import settings

settings.register_profile("no clock", deadline=None)  # no test may depend on how busy the machine is
settings.load_profile("no clock")


# Modules and folders whose tests start processes, make many fits, or run over all solvers. Others are marked `fast`.
SLOW = (
    "benchmarks",
    "cli",
    "compat",
    "core/test_threads.py",
    "dask",
    "data/stores",
    "data/test_libsvm.py",
    "engine/test_checkpoint.py",
    "engine/test_every_solver.py",
    "engine/test_threads.py",
    "estimators",
    "game/test_primal_dual.py",
    "sdp",
    "svm/kernel/test_every_kernel_solver.py",
    "svm/kernel/test_stochastic_batch_perceptron.py",
    "svm/kernel/test_sublinear_perceptron.py",
    "svm/linear/test_every_linear_solver.py",
    "svm/linear/test_hybrid.py",
    "svm/linear/test_pegasos.py",
    "svm/test_for_C.py",
    "test_docs.py",
    "test_examples.py",
    "test_guard.py",
    "test_import.py",
)
FAST_IN_A_SLOW_FOLDER = ("estimators/persistence/test_older_files.py", "cli/test_progress.py")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Nothing of what is collected is garbage: to look for it there would take a quarter of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def is_fast(path):
    tests = Path(__file__).parent
    name = path.relative_to(tests).as_posix() if path.is_relative_to(tests) else ""
    return name != "" and (name in FAST_IN_A_SLOW_FOLDER or not name.startswith(SLOW))


def pytest_ignore_collect(collection_path, config):
    """`-m fast` does not even import the modules of the others."""
    if config.option.markexpr == "fast" and collection_path.suffix == ".py" and not is_fast(collection_path):
        return True
    return None


def pytest_collection_modifyitems(items):
    for item in items:
        if is_fast(item.path):
            item.add_marker("fast")


@pytest.fixture
def storages(tmp_path):
    """The same matrix in every way that it may be stored."""

    def store(X):
        mapped = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
        mapped[:] = X
        mapped.flush()
        readonly = X.copy()
        readonly.flags.writeable = False
        csr = sp.csr_array(X)
        unsorted = csr.copy()
        for start, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
            unsorted.indices[start:end] = csr.indices[start:end][::-1]
            unsorted.data[start:end] = csr.data[start:end][::-1]
        unsorted.has_sorted_indices = False
        halves = (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr)
        return {
            "fortran": np.asfortranarray(X),
            "read-only": readonly,
            "view": np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
            "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
            "memory map": np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape),
            "csr": csr,
            "csr matrix": sp.csr_matrix(X),
            "csc": sp.csc_array(X),
            "int64 indices": sp.csr_array(
                (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), X.shape
            ),
            "unsorted": unsorted,
            "duplicates": sp.csr_array(halves, X.shape),
        }

    return store


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Ctrl-C in one test is no sign of impatience in the next."""
    monkeypatch.setattr("maxmargin.engine.interrupt._last", -float("inf"))


# Problems solved exactly by a convex solver, to compare with


def solve_cone(P, q, A, b, cones):
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    answer = clarabel.DefaultSolver(sp.csc_matrix(P), q, sp.csc_matrix(A), b, cones, settings).solve()
    assert "Solved" in str(answer.status)
    return np.array(answer.x), np.array(answer.z)


def slack_form(X, y, slack, bias=True, s=None):
    """max gamma, over (w, b, gamma, xi): y_i(<w, x_i> + b) + xi_i >= gamma, |w| <= 1, sum s_i xi_i <= slack sum s_i."""
    n, d = X.shape
    s = np.ones(n) if s is None else s
    yX, eye, zero = y[:, None] * X, np.eye(n), np.zeros
    above = np.hstack([-yX, -y[:, None] * bias, np.ones((n, 1)), -eye])
    rows = [above, np.hstack([zero((n, d + 2)), -eye]), np.hstack([zero((1, d + 2)), s[None]])]
    limits = [zero(2 * n), [slack * s.sum()]]
    # b is fixed at zero where there is no bias; then |w| <= 1.
    rows.append(np.eye(1, d + 2 + n, d) * (not bias))
    rows.append(np.vstack([zero((1, d + 2 + n)), np.hstack([-np.eye(d), zero((d, n + 2))])]))
    limits += [[0.0], [1.0], zero(d)]
    cones = [clarabel.NonnegativeConeT(2 * n + 1), clarabel.ZeroConeT(1), clarabel.SecondOrderConeT(d + 1)]
    q = -np.eye(1, d + 2 + n, d + 1)[0]
    x, z = solve_cone(zero((q.size, q.size)), q, np.vstack(rows), np.concatenate(limits), cones)
    return SimpleNamespace(w=x[:d], b=x[d] if bias else 0.0, value=x[d + 1], p=z[:n])


def C_form(X, y, C, bias=True, s=None, loss="hinge", B=None):
    """min 1/2 |w|^2 + 1/2 (b/B)^2 + C sum s_i loss_i, over (w, b, xi); without B the bias is free."""
    n, d = X.shape
    s = np.ones(n) if s is None else s
    eye, squared = np.eye(n), loss == "squared_hinge"
    above = np.hstack([-y[:, None] * X, -y[:, None] * bias, -eye])
    A = np.vstack([above, np.hstack([np.zeros((n, d + 1)), -eye]), np.eye(1, d + 1 + n, d) * (not bias)])
    P = np.diag(np.concatenate([np.ones(d), [0.0 if B is None else 1 / B**2], 2 * C * s * squared]))
    q = np.concatenate([np.zeros(d + 1), C * s * (not squared)])
    b = np.concatenate([-np.ones(n), np.zeros(n + 1)])
    x, z = solve_cone(P, q, A, b, [clarabel.NonnegativeConeT(2 * n), clarabel.ZeroConeT(1)])
    w, b = x[:d], x[d] if bias else 0.0
    hinge = np.maximum(0, 1 - y * (X @ w + b))
    value = 0.5 * w @ w + C * s @ hinge ** (1 + squared) + (0.0 if B is None else 0.5 * (b / B) ** 2)
    return SimpleNamespace(w=w, b=b, value=value, hinge=hinge, alpha=z[:n])


def semidefinite_form(A):
    """min t, over (t, p): t I - sum p_i A_i positive semidefinite, p on the simplex. Then t is the best min_i A_i.X."""
    m, n, _ = A.shape
    l, j = np.tril_indices(n)  # the upper triangle by columns
    triangle = np.vstack([-np.eye(n)[None], A])[:, j, l] * np.where(j == l, 1.0, np.sqrt(2))
    simplex = np.hstack([np.zeros((m + 1, 1)), np.vstack([-np.eye(m), np.ones((1, m))])])
    b = np.concatenate([np.zeros(j.size + m), [1.0]])
    cones = [clarabel.PSDTriangleConeT(n), clarabel.NonnegativeConeT(m), clarabel.ZeroConeT(1)]
    q = np.eye(1, m + 1)[0]
    x, _ = solve_cone(np.zeros((m + 1, m + 1)), q, np.vstack([triangle.T, simplex]), b, cones)
    return SimpleNamespace(value=x[0], p=x[1:])


def ball_form(G, nu=0.0):
    """max sum p_i G_ii - p'Gp over the simplex, p_i <= 1 / (nu n): the weights, and the root of the value."""
    n = len(G)
    A = np.vstack([np.ones((1, n)), -np.eye(n), np.eye(n)])
    b = np.concatenate([[1.0], np.zeros(n), np.full(n, 1 / max(1.0, nu * n))])
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(2 * n)]
    p, _ = solve_cone(2 * np.triu(G), -np.diagonal(G).copy(), A, b, cones)
    return SimpleNamespace(p=p, value=np.sqrt(max(0.0, p @ np.diagonal(G) - p @ G @ p)))


@pytest.fixture(scope="session")
def exact():
    return SimpleNamespace(
        slack_form=slack_form, C_form=C_form, semidefinite_form=semidefinite_form, ball_form=ball_form
    )
