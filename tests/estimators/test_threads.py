"""Threads, seen from the estimators: the BLAS has one inside and what it had afterwards, and no bit depends on them."""

import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from covering import every_pair
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import SVC, EnclosingBall, LinearSVC, solve
from maxmargin.core import threads
from maxmargin.engine.problem import Trait
from maxmargin.estimators import kernel_decisions, linear, packed_vectors, small_linear
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import SemidefiniteFeasibility, SlackSVM
from maxmargin.solvers import KERNEL_SOLVERS, OTHER_SOLVERS, SOLVERS, Simba, SublinearSdp

N_JOBS = (1, 2, None, -1)


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def _two_blas_threads():
    with threadpool_limits(2, "blas"):
        yield
        assert blas_threads() == {2}


@pytest.fixture(autouse=True)
def _small_work_pays(monkeypatch):
    """Two processors, and threads wherever they are possible: the data of the tests is small."""
    monkeypatch.setattr(threads, "LEAST_WORK", 10)
    monkeypatch.setattr(linear, "LEAST_WORK", 1000)
    monkeypatch.setattr(linear, "BLAS_THREADS_FROM", 0)
    monkeypatch.setattr(kernel_decisions, "FEW_OPERATIONS", 0)
    monkeypatch.setattr(threads, "allowed_processors", lambda: 2)


@pytest.fixture(autouse=True)
def _few_iterations_are_enough():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def clouds(classes=3, n=240, d=6, separable=False):
    rng = np.random.default_rng(0)
    label = np.arange(n) % classes
    return rng.normal(size=(n, d)) + (9 if separable else 1.5) * np.eye(classes, d)[label], label


@pytest.fixture
def recording(monkeypatch):
    """Whether each BLAS library had one thread, at each step of a solver and each chunk of a prediction."""
    seen = []

    def watch(module, name):
        before = getattr(module, name)

        def recorded(*args, **options):
            seen.append({library.get_num_threads() for library in threads._blas_libraries()} == {1})
            return before(*args, **options)

        monkeypatch.setattr(module, name, recorded)

    for solver in [*SOLVERS.values(), *KERNEL_SOLVERS.values(), *OTHER_SOLVERS.values()]:
        watch(solver, "step")
        watch(solver, "start")
    watch(packed_vectors.PackedVectors, "block")
    watch(Rbf, "_dense_left")
    watch(linear, "safe_sparse_dot")
    watch(small_linear.SharedSamples, "of")
    watch(small_linear, "solve_many")
    return seen


def fits():
    for name, solver in SOLVERS.items():
        options = {"slack": 0.0} if Trait.SEPARABLE in solver.requires else {}
        yield f"linear {name}", LinearSVC(solver=name, max_iter=2, random_state=0, **options)
    for name, solver in KERNEL_SOLVERS.items():
        # For C, a solver that takes a slack would search over many fits: the linear ones do.
        slack = None if solver.solves is not SlackSVM else 0.0 if Trait.SEPARABLE in solver.requires else 0.05
        yield f"kernel {name}", SVC(solver=name, slack=slack, max_iter=1, random_state=0)
    yield "kernel, one against the rest", SVC(multi_class="ovr")
    yield "ball", EnclosingBall(nu=0.1)
    yield "ball with a kernel", EnclosingBall(kernel="rbf", nu=0.1)
    yield "sublinear ball", EnclosingBall(solver="sublinear_ball", max_iter=20, random_state=0)


FITS = dict(fits())
KINDS = {"dense": np.asarray, "sparse": sp.csr_array}


@pytest.mark.parametrize("classes", [2, 3])
def test_small_linear_problems_are_prepared_and_solved_with_one_blas_thread(classes, recording):
    """Otherwise another process would multiply the time of a fit, because threads of BLAS wait for each other."""
    LinearSVC().fit(*clouds(classes, d=30))
    assert len(recording) >= 2
    assert all(recording)


def check_bits(model, kind, classes, n_jobs, recording):
    """With several classes problems are solved at once, and with two they share the rows or the blocks of one."""
    X, y = clouds(classes, separable=True)
    X = KINDS[kind](X)
    found = [model.set_params(n_jobs=n).fit(X, y).decision_function(X) for n in n_jobs]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)
    assert recording
    assert all(recording)


@pytest.mark.parametrize(("name", "kind", "classes"), every_pair(FITS, KINDS, [3, 2]))
def test_one_blas_thread_inside_and_the_same_bits_of_one_thread_and_of_two(name, kind, classes, recording):
    check_bits(FITS[name], kind, classes, (1, 2), recording)


@pytest.mark.parametrize("name", ["linear sdca", "kernel decomposition", "ball"])
def test_the_same_bits_however_threads_are_asked_for(name, recording):
    check_bits(FITS[name], "dense", 3, N_JOBS, recording)


def test_an_error_inside_of_a_fit():
    def broken(A, B):
        assert blas_threads() == {1}
        raise ZeroDivisionError

    X, y = clouds()
    with pytest.raises(ZeroDivisionError):
        SVC(kernel=broken).fit(X, y)
    assert blas_threads() == {2}


@pytest.mark.parametrize("n_jobs", N_JOBS)
def test_a_function_as_kernel_is_called_by_one_thread(n_jobs):
    def kernel(A, B):
        callers.add(threading.get_ident())
        assert blas_threads() == {1}
        return A @ B.T

    callers = set()
    X, y = clouds()
    SVC(kernel=kernel, n_jobs=n_jobs).fit(X, y).predict(X)
    EnclosingBall(kernel=kernel, n_jobs=n_jobs).fit(X).predict(X)
    assert callers == {threading.get_ident()}


def test_fits_in_several_threads_of_the_user():
    X, y = clouds()
    one = SVC().fit(X, y).decision_function(X)
    for found in Parallel(n_jobs=4, backend="threading")(
        delayed(lambda: SVC().fit(X, y).decision_function(X))() for _ in range(8)
    ):
        np.testing.assert_array_equal(found, one)
    assert blas_threads() == {2}


def test_solve_of_other_problems(recording):
    X, y = clouds(2)
    solve(SlackSVM(X, np.where(y == 1, 1.0, -1.0), slack=0.1), Simba(), max_iter=20, random_state=0)
    A = np.array([np.diag([1.0, -0.5]), np.diag([-0.5, 1.0])])
    solve(SemidefiniteFeasibility(A), SublinearSdp(eps=0.3), max_iter=20, random_state=0)
    assert recording
    assert all(recording)


def test_partial_fit(recording):
    X, y = clouds()
    LinearSVC(solver="pegasos", random_state=0).partial_fit(X, y, classes=[0, 1, 2])
    assert recording
    assert all(recording)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no limit on memory here")
def test_little_memory_is_an_error_or_a_model_and_never_a_hang():
    code = """
import resource, warnings
import numpy as np
from maxmargin import LinearSVC
from maxmargin.solvers import SOLVERS
len(SOLVERS)  # compiled modules are loaded now: without memory, their import is another error
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 100))
y = np.sign(X[:, 0] + rng.normal(size=20_000))
for megabytes in (1, 20, 50, 100):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + megabytes * 2**20, -1))
    try:
        LinearSVC(n_jobs=2, solver="newton").fit(X, y)
        print("a model")
    except MemoryError:
        print("an error")
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
LinearSVC(n_jobs=2, solver="newton").fit(X, y)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "an error"


def test_small_fits_stay_on_the_calling_thread(monkeypatch):
    monkeypatch.setattr(threads, "LEAST_WORK", 1_000_000)
    monkeypatch.setattr(threads._Helpers, "invite", lambda *args: pytest.fail("a helper was asked for"))
    X, y = clouds()
    for model in (LinearSVC(), SVC(), EnclosingBall(kernel="rbf")):
        model.fit(X, y).predict(X)
