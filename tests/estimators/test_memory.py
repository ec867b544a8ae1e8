"""Where memory runs out a fit raises MemoryError, or does with less; it never hangs, and the process goes on."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

PROGRAM = """
import multiprocessing, resource, sys, threading, warnings
import numpy as np
import maxmargin
from maxmargin.core.threads import limit_blas

def run_out_of_memory(call):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2500, 60)), np.arange(2500) % 3
    few = X[:60], y[:60] > 0
    model = eval("maxmargin." + call)
    # What is imported on the way is there already, and so are the buffers of the BLAS: one for each of the threads that
    # are inside of it at once. Where OpenBLAS cannot get another one, it ends the process, which nobody can prevent.
    model.fit(X, y)
    together = threading.Barrier(2)
    def multiply():
        together.wait()
        for _ in range(100):
            X.T @ X
    with limit_blas():
        threads = [threading.Thread(target=multiply) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with open("/proc/self/statm") as status:
        size = int(status.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for more in (0, 1, 4, 16, 64):
        resource.setrlimit(resource.RLIMIT_AS, (size + more * 1_000_000, hard))
        try:
            model.fit(X, y)
        except MemoryError:
            pass
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    type(model)(max_iter=5).fit(*few).predict(few[0])

maxmargin.SVC, maxmargin.LinearSVC, maxmargin.EnclosingBall  # imported once for the processes of all models
for call in sys.argv[1:]:
    process = multiprocessing.get_context("fork").Process(target=run_out_of_memory, args=(call,))
    process.start()
    process.join()
    print(process.exitcode, call, flush=True)
"""

MODELS = [
    "SVC(max_iter=5)",
    "SVC(max_iter=5, n_jobs=2)",
    "SVC(max_iter=5, solver='smo')",
    "LinearSVC(max_iter=5)",
    "LinearSVC(max_iter=5, n_jobs=2)",
    "EnclosingBall(kernel='rbf', max_iter=5)",
]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space are those of Linux")
def test_memory_that_runs_out():
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *MODELS], capture_output=True, text=True, check=False, timeout=600
    )
    assert run.stdout.splitlines() == [f"0 {model}" for model in MODELS], run.stderr[-2000:]
