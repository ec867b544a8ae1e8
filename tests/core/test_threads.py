"""How many threads are used, work in several of them, and the limit on those of the BLAS."""

import os
import subprocess
import sys
import threading
import time
from functools import partial

import joblib
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin.core import threads
from maxmargin.core.threads import limit_blas, run_parallel, thread_count


def blas_threads():
    """Of each BLAS library, as threadpoolctl sees it."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _two_blas_threads():
    """So that a limit can be seen, however the tests were started and whatever the machine has."""
    with threadpool_limits(2, "blas"):
        assert set(blas_threads()) == {2}
        yield
        assert set(blas_threads()) == {2}


class TestLimitOnBlas:
    def test_inside_and_after(self):
        with limit_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}

    def test_all_libraries_are_found(self):
        found = [os.path.basename(library.filepath) for library in threads._blas_libraries()]
        loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
        assert sorted(found) == sorted(os.path.basename(library["filepath"]) for library in loaded)
        assert found

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
    def test_after_an_error(self, error):
        with pytest.raises(error), limit_blas():
            raise error
        assert set(blas_threads()) == {2}

    def test_after_an_error_on_the_way_in(self, monkeypatch):
        def interrupted(library, number):
            setter(library, number)
            if number == 1:
                raise KeyboardInterrupt

        setter = threads._set_num_threads
        monkeypatch.setattr(threads, "_set_num_threads", interrupted)
        with pytest.raises(KeyboardInterrupt), limit_blas():
            raise AssertionError("not reached")
        assert set(blas_threads()) == {2}

    def test_after_an_error_on_the_way_out(self, monkeypatch):
        def interrupted(library, number):
            if number == 2 and library is threads._blas_libraries()[-1] and not calls:
                calls.append(number)
                raise KeyboardInterrupt
            setter(library, number)

        setter, calls = threads._set_num_threads, []
        monkeypatch.setattr(threads, "_set_num_threads", interrupted)
        with pytest.raises(KeyboardInterrupt), limit_blas():
            pass
        assert calls
        with limit_blas():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {2}

    def test_a_limit_that_was_not_left_ends_with_its_object(self):
        limit = limit_blas().__enter__()
        assert set(blas_threads()) == {1}
        del limit
        assert set(blas_threads()) == {2}

    def test_nested(self):
        with limit_blas(2):
            assert set(blas_threads()) == {2}
            with limit_blas(1):
                with limit_blas(2):
                    assert set(blas_threads()) == {1}
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {2}

    def test_it_never_raises_what_the_user_has_set(self):
        with threadpool_limits(1, "blas"):
            with limit_blas(2):
                assert set(blas_threads()) == {1}
            assert set(blas_threads()) == {1}

    def test_the_thread_that_came_second_leaves_last(self):
        inside, leave = threading.Event(), threading.Event()

        def second():
            with limit_blas():
                inside.set()
                leave.wait()

        other = threading.Thread(target=second)
        with limit_blas():
            other.start()
            inside.wait()
        assert set(blas_threads()) == {1}
        leave.set()
        other.join()
        assert set(blas_threads()) == {2}

    def test_many_threads_at_once(self):
        seen = []

        def often():
            for _ in range(200):
                with limit_blas():
                    seen.append(threads._process.applied)

        others = [threading.Thread(target=often) for _ in range(4)]
        for other in others:
            other.start()
        for other in others:
            other.join()
        assert set(seen) == {1}
        assert len(seen) == 800

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
    def test_a_forked_process_has_the_setting_of_the_user(self):
        """Another thread is inside when this one forks; it does not exist in the new process."""
        code = """
import os, threading, warnings
from threadpoolctl import threadpool_info, threadpool_limits
from maxmargin.core.threads import limit_blas, run_parallel
def seen():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
warnings.simplefilter("ignore")
inside, leave = threading.Event(), threading.Event()
def other():
    with limit_blas():
        inside.set()
        leave.wait()
run_parallel([int, int], 2)
threadpool_limits(2, "blas")
with limit_blas():
    pass
thread = threading.Thread(target=other)
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    right = seen() == {2} and run_parallel([int, int], 2) == [0, 0]
    with limit_blas():
        right = right and seen() == {1}
    os._exit(0 if right and seen() == {2} else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert seen() == {1}
leave.set()
thread.join()
assert seen() == {2}
"""
        unset = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=unset)


class TestRunParallel:
    def test_results_are_in_order(self):
        for count in (0, 1, 2, 7):
            assert run_parallel([partial(pow, k, 2) for k in range(count)], 3) == [k**2 for k in range(count)]

    def test_two_threads_take_part(self):
        meet = threading.Barrier(2, timeout=30)

        def task():
            meet.wait()
            return threading.get_ident()

        first, second = run_parallel([task, task], 2)
        assert first != second

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
    @pytest.mark.parametrize("by_helper", [True, False])
    def test_an_error_is_raised_and_ends_all(self, error, by_helper):
        caller, meet, begun = threading.get_ident(), threading.Barrier(2, timeout=30), []

        def task(k):
            begun.append(k)
            if k < 2:
                meet.wait()
            if k < 2 and (threading.get_ident() != caller) == by_helper:
                raise error(k)
            if k < 2:
                while not failed():  # so that nothing is taken before
                    pass

        def failed():
            return any(job.error is not None for job in jobs)

        jobs = []
        before = threads._Job
        try:
            threads._Job = lambda tasks: jobs.append(before(tasks)) or jobs[-1]
            with pytest.raises(error):
                run_parallel([partial(task, k) for k in range(50)], 2)
        finally:
            threads._Job = before
        assert sorted(begun) == [0, 1]
        assert run_parallel([int, int], 2) == [0, 0]

    @pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
    def test_without_helpers(self, monkeypatch, error):
        def refuse(*args):
            raise error

        monkeypatch.setattr(threads, "_helpers", threads._Helpers())
        monkeypatch.setattr(threads._thread, "start_new_thread", refuse)
        assert run_parallel([threading.get_ident] * 5, 3) == [threading.get_ident()] * 5

    def test_with_helpers_that_die_before_they_begin(self, monkeypatch):
        monkeypatch.setattr(threads, "_helpers", threads._Helpers())
        monkeypatch.setattr(threads._thread, "start_new_thread", lambda *args: 0)
        assert run_parallel([threading.get_ident] * 5, 3) == [threading.get_ident()] * 5

    def test_inside_of_another(self):
        def outer(k):
            return run_parallel([partial(pow, k, j) for j in range(5)], 4)

        assert run_parallel([partial(outer, k) for k in range(9)], 4) == [[k**j for j in range(5)] for k in range(9)]

    def test_no_more_threads_than_the_outermost_call_asked_for(self):
        """Though there are more helpers, and calls inside ask for them."""
        run_parallel([int] * 8, 8)
        at_work, most, lock = set(), [0], threading.Lock()

        def inner():
            with lock:
                at_work.add(threading.get_ident())
                most[0] = max(most[0], len(at_work))
            sum(range(20_000))
            with lock:
                at_work.discard(threading.get_ident())

        run_parallel([partial(run_parallel, [inner] * 20, 8)] * 5, 2)
        assert 1 <= most[0] <= 2
        assert threads._team.get() is None

    def test_a_helper_with_nothing_left_to_do_helps_in_a_call_inside(self):
        caller, meet, both = threading.get_ident(), threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)

        def task():
            meet.wait()
            if threading.get_ident() != caller:
                return []
            while not threads._team.get().free:  # the helper is about to be done
                time.sleep(0.001)
            return run_parallel([both.wait] * 2, 2)

        seen = run_parallel([task] * 2, 2)
        assert sorted(map(sorted, seen)) == [[], [0, 1]]

    def test_helpers_have_one_blas_thread_and_the_context_of_the_caller(self):
        caller, meet = threading.get_ident(), threading.Barrier(2, timeout=30)

        def task():
            meet.wait()
            return threading.get_ident() == caller, set(blas_threads()), np.geterr()["over"]

        with np.errstate(over="raise"):
            seen = {own: rest for own, *rest in run_parallel([task, task], 2)}
        assert seen[False] == [{1}, "raise"]


class TestThreadCount:
    def test_as_asked(self):
        assert thread_count(1) == 1
        assert thread_count(2) == 2
        assert thread_count(-1) == joblib.cpu_count()
        with pytest.raises(ValueError, match="n_jobs"):
            thread_count(0)

    def test_none_is_all_that_the_process_may_use(self, monkeypatch):
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        assert 1 <= thread_count(None) <= joblib.cpu_count()
        with threadpool_limits(1):
            assert thread_count(None) == 1

    @pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity here")
    def test_affinity(self):
        before = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, list(before)[:1])
            assert thread_count(None) == thread_count(-1) == 1
        finally:
            os.sched_setaffinity(0, before)

    def test_config_of_joblib(self):
        with joblib.parallel_config(n_jobs=3, backend="threading"):
            assert thread_count(None) == 3
            assert thread_count(1) == 1

    @pytest.mark.parametrize("backend", ["threading", "loky"])
    def test_one_in_a_worker_of_joblib(self, backend):
        with joblib.parallel_config(backend=backend):
            seen = joblib.Parallel(n_jobs=2)(joblib.delayed(thread_count)(None) for _ in range(4))
        assert seen == [1] * 4

    @pytest.mark.parametrize(("variable", "expected"), [("OMP_NUM_THREADS", 1), ("OPENBLAS_NUM_THREADS", None)])
    def test_environment(self, variable, expected):
        code = "from maxmargin.core.threads import thread_count; print(thread_count(None))"
        env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
        done = subprocess.run(
            [sys.executable, "-c", code], env={**env, variable: "1"}, capture_output=True, text=True, check=True
        )
        assert int(done.stdout) == (expected or joblib.cpu_count(only_physical_cores=True))
