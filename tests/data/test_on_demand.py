"""Features on demand: each entry is computed at most once, paid for once, and kept, in memory and on disk."""

import asyncio
import gc
import os
import re
import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from on_demand_entries import D, N, X, entries_of_X

from maxmargin import LinearSVC, SlackSVM, solve
from maxmargin.core.source import is_source
from maxmargin.data import FeatureError, LogError, OnDemand
from maxmargin.data.feature_log import RECORD
from maxmargin.solvers import Simba

COSTS = np.array([1.0, 2.0, 0.0, 0.5, 3.0, 1.0, 0.1])


class Functions:
    """The three functions of X, which count how often each entry was computed."""

    def __init__(self, values=X):
        self.X, self.times, self.calls, self.lock = values, Counter(), [], threading.Lock()

    def count(self, what, i, j):
        with self.lock:
            self.calls.append((what, i, j))
            self.times.update(zip(i.tolist(), j.tolist(), strict=True))

    def entries(self, i, j):
        self.count("entries", i, j)
        return self.X[i, j]

    def rows(self, i):
        shape = (i.size, self.X.shape[1])
        self.count("rows", *(np.broadcast_to(a, shape).ravel() for a in (i[:, None], np.arange(shape[1]))))
        return self.X[i]

    def columns(self, j):
        shape = (self.X.shape[0], j.size)
        self.count("columns", *(np.broadcast_to(a, shape).ravel() for a in (np.arange(shape[0])[:, None], j)))
        return self.X[:, j]

    def of(self, *names):
        return {name: getattr(self, name) for name in names}

    @property
    def cost(self):
        return sum(times * COSTS[j] for (_, j), times in self.times.items())


def known_of(source):
    """Which entries are known, found without a call."""
    return source._known.block(np.arange(source.shape[0]), np.arange(source.shape[1])).known


def prices_from_scratch(source, functions):
    """The prices of rows and columns from the definition: what the calls for the missing entries would cost."""
    missing = ~known_of(source)
    by_row, by_column = missing @ COSTS, missing.sum(axis=0) * COSTS
    if "entries" not in functions:
        whole_row, whole_columns = COSTS.sum(), N * COSTS
        by_row = missing.any(axis=1) * whole_row if "rows" in functions else missing @ whole_columns
        by_column = missing.any(axis=0) * whole_columns if "columns" in functions else missing.sum(axis=0) * whole_row
    return by_row, by_column


ASKED = st.one_of(
    st.tuples(st.just("row"), st.integers(0, N - 1)),
    st.tuples(st.just("column"), st.integers(0, D - 1)),
    st.tuples(st.just("block"), st.sets(st.integers(0, N - 1)), st.sets(st.integers(0, D - 1))),
)
FUNCTIONS = [
    ("entries",),
    ("entries", "rows"),
    ("entries", "columns"),
    ("entries", "rows", "columns"),
    ("rows",),
    ("columns",),
    ("rows", "columns"),
]


def ask(source, what, *where):
    """Ask for a row, a column or a block, and check the values and the price against what was spent."""
    if what == "block":
        i, j = (np.array(sorted(lines), dtype=int) for lines in where)
        price, spent, expected = source.price(i, j), source.spent, X[np.ix_(i, j)]
        found = source.block(i, j)
    else:
        lines = source.rows if what == "row" else source.columns
        price, spent, expected = lines.prices[where[0]], source.spent, (X if what == "row" else X.T)[[where[0]]]
        found = lines.read(where[0]).lines
    np.testing.assert_array_equal(found, expected)
    assert source.spent - spent == pytest.approx(price, abs=1e-12)


@given(
    names=st.sampled_from(FUNCTIONS),
    asked=st.lists(ASKED, max_size=8),
    batch_size=st.sampled_from([None, 1, 3, 10]),
)
def test_any_reads_give_the_matrix_and_cost_what_their_prices_said(names, asked, batch_size):
    functions = Functions()
    source = OnDemand(N, D, **functions.of(*names), cost=COSTS, batch_size=batch_size)
    for one in asked:
        ask(source, *one)
        for prices, expected in zip(
            (source.rows.prices, source.columns.prices), prices_from_scratch(source, names), strict=True
        ):
            np.testing.assert_allclose(prices, expected, atol=1e-12)
            assert (prices[expected == 0] == 0).all()
        for one_axis, unknown in zip((1, 0), source._known.unknown, strict=True):
            np.testing.assert_array_equal(unknown, (~known_of(source)).sum(axis=one_axis))
    assert source.spent == pytest.approx(functions.cost, abs=1e-12)
    assert source.computed == functions.times.total()
    assert source.calls == len(functions.calls)
    if set(names) != {"rows", "columns"}:  # whole rows and whole columns cannot but cross
        assert max(functions.times.values(), default=1) == 1


def test_it_is_a_source():
    source = OnDemand(N, D, entries=Functions().entries, dtype=np.float32)
    assert is_source(source)
    assert (source.shape, source.dtype, source.n_stored) == ((N, D), np.float32, N * D)
    for lines, count, width in ((source.rows, N, D), (source.columns, D, N)):
        np.testing.assert_array_equal(lines.starts, np.arange(count + 1))
        assert lines.sizes is None
        assert not lines.read_ahead
        block = lines.read(1)
        assert block.lines.shape == (1, width)
        assert block.lines.dtype == np.float32
        assert block.lines.flags.c_contiguous
        assert lines.nbytes(1) == block.lines.nbytes
        assert 8 * lines.nbytes(1) <= source.cache_size
    assert block.chunks == 1
    assert block.bytes == 4 * (N - 1)  # an entry of the column was known from the row
    assert source.columns.read(1).bytes == 0


def test_a_whole_line_of_which_nothing_is_known_takes_the_function_for_lines():
    functions = Functions()
    source = OnDemand(N, D, **functions.of("entries", "rows", "columns"))
    source.rows.read(0)
    source.columns.read(0)
    source.rows.read(1)
    assert [what for what, _, _ in functions.calls] == ["rows", "entries", "entries"]


@pytest.mark.parametrize(
    ("cost", "expected"),
    [(2, [2.0] * D), (COSTS.tolist(), COSTS), (lambda j: j % 2, np.arange(D) % 2)],
    ids=["number", "array", "function"],
)
def test_costs(cost, expected):
    source = OnDemand(N, D, entries=Functions().entries, cost=cost)
    np.testing.assert_array_equal(source.costs, expected)
    np.testing.assert_allclose(source.rows.prices, np.sum(expected))
    np.testing.assert_allclose(source.columns.prices, N * np.asarray(expected))


# Several calls at a time


def call_with(kind):
    """A closure, a function of module level, a function to await, and an object whose calls are awaited."""
    values = X

    async def awaited(i, j):
        await asyncio.sleep(0)
        return values[i, j]

    class Client:
        async def __call__(self, i, j):
            return await awaited(i, j)

    return {"closure": lambda i, j: values[i, j], "module": entries_of_X, "async": awaited, "client": Client()}[kind]


@pytest.mark.parametrize(
    ("kind", "backend", "workers"),
    [
        ("closure", "threads", 3),
        ("async", "threads", 1),
        ("async", "threads", 3),
        ("client", "threads", 3),
        ("module", "processes", 2),
        ("closure", "processes", 1),
    ],
)
def test_calls_at_the_same_time_give_the_same(kind, backend, workers):
    with OnDemand(N, D, entries=call_with(kind), workers=workers, backend=backend, batch_size=2) as source:
        np.testing.assert_array_equal(source.rows.read(2).lines[0], X[2])
        np.testing.assert_array_equal(source.block(np.arange(N), np.arange(D)), X)
        assert source.computed == N * D
        assert source.calls == 4 + 14


def test_no_more_than_workers_calls_are_awaited_at_a_time_and_all_of_them_are():
    running, most, all_there = 0, 0, None

    async def entries(i, j):
        nonlocal running, most, all_there
        all_there = all_there or asyncio.Event()
        running += 1
        most = max(most, running)
        if running == 3:
            all_there.set()
        await all_there.wait()
        running -= 1
        return X[i, j]

    with OnDemand(N, D, entries=entries, workers=3, batch_size=1) as source:
        source.rows.read(0)
    assert most == 3


def test_an_async_function_is_awaited_inside_of_a_running_loop():
    """As in a notebook, where the cell itself runs in an event loop."""
    with OnDemand(N, D, entries=call_with("async"), workers=2) as source:

        async def cell():
            return source.rows.read(0).lines

        np.testing.assert_array_equal(asyncio.run(cell())[0], X[0])


def test_threads_run_at_the_same_time():
    together = threading.Barrier(3)

    def entries(i, j):
        together.wait(timeout=60)
        return X[i, j]

    with OnDemand(N, D, entries=entries, workers=3) as source:
        source.rows.read(0)


def test_reads_from_several_threads_compute_each_entry_once():
    functions = Functions()
    source = OnDemand(N, D, entries=functions.entries)
    reads = [lines.read for lines in (source.rows, source.columns)]
    threads = [threading.Thread(target=read, args=(k,)) for read in reads for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(functions.times.values()) == {1}
    assert len(functions.times) == 2 * D + 2 * N - 4


def test_workers_end_with_the_source():
    source = OnDemand(N, D, entries=call_with("async"), workers=2)
    source.rows.read(0)
    thread = source._calls.loop.thread
    del source
    gc.collect()
    thread.join(timeout=60)
    assert not thread.is_alive()


# Failures


class Flaky(Functions):
    """Fails for an entry, so many times."""

    def __init__(self, entry, times):
        super().__init__()
        self.entry, self.left = entry, times

    def fail(self, i, j):
        if self.left and self.entry in zip(i.tolist(), j.tolist(), strict=True):
            self.left -= 1
            raise ConnectionError("the line is busy")

    def entries(self, i, j):
        self.fail(i, j)
        return super().entries(i, j)

    async def awaited(self, i, j):
        return self.entries(i, j)


@pytest.mark.parametrize(
    ("attribute", "workers"), [("entries", 1), ("entries", 2), ("awaited", 2)], ids=["plain", "threads", "async"]
)
def test_a_call_that_fails_is_made_again(attribute, workers):
    flaky = Flaky((1, 4), times=3)
    with OnDemand(N, D, entries=getattr(flaky, attribute), batch_size=2, workers=workers, retry_wait=0.0) as source:
        np.testing.assert_array_equal(source.rows.read(1).lines[0], X[1])
    assert flaky.left == 0
    assert set(flaky.times.values()) == {1}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_call_that_fails_to_the_end_is_reported_and_what_was_paid_for_is_kept(workers, tmp_path):
    flaky, path = Flaky((1, 4), times=4), tmp_path / "features.log"
    options = {"batch_size": 2, "workers": workers, "retry_wait": 0.0, "cost": COSTS, "memory": path}
    with OnDemand(N, D, entries=flaky.entries, **options) as source:
        with pytest.raises(FeatureError, match=r"entries\(\) of row 1, columns 4 to 5 failed 4 times.*busy") as caught:
            source.rows.read(1)
        assert (caught.value.row, caught.value.column) == (1, 4)
        assert (caught.value.rows.tolist(), caught.value.columns.tolist()) == ([1, 1], [4, 5])
        assert isinstance(caught.value.__cause__, ConnectionError)
        paid = source.spent
        assert paid == pytest.approx(flaky.cost)
        assert source.rows.prices[1] == pytest.approx(COSTS.sum() - paid)
        assert paid >= COSTS[:4].sum() - 1e-12
    with OnDemand(N, D, entries=flaky.entries, **options) as again:
        np.testing.assert_array_equal(again.rows.read(1).lines[0], X[1])
        assert again.spent + paid == pytest.approx(COSTS.sum())
    assert set(flaky.times.values()) == {1}


def test_waits_grow_twofold(monkeypatch):
    waits = []
    monkeypatch.setattr("maxmargin.data.feature_calls.time.sleep", waits.append)
    source = OnDemand(N, D, entries=Flaky((0, 0), times=9).entries, retries=4, retry_wait=0.5)
    with pytest.raises(FeatureError):
        source.rows.read(0)
    assert waits == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        (
            {"entries": lambda i, j: X[i, j][:-1]},
            r"row 1, columns 0 to 6 returned an array of shape \(6,\), not \(7,\)",
        ),
        ({"rows": lambda i: X[i, :3]}, r"rows\(\) of row 1 returned an array of shape \(1, 3\), not \(1, 7\)"),
        ({"entries": lambda i, j: "seven"}, "returned str, not numbers"),
        ({"entries": lambda i, j: np.where(j == 3, np.nan, 0.0)}, "entry at row 1, column 3 is nan"),
        ({"rows": lambda i: np.where(np.arange(D) == 2, np.inf, X[i])}, "entry at row 1, column 2 is inf"),
        ({"columns": lambda j: np.where(j == 5, np.nan, X[:, j])}, "entry at row 0, column 5 is nan"),
    ],
)
def test_wrong_results_are_refused_and_not_kept(functions, message):
    source = OnDemand(N, D, **functions, retry_wait=0.0)
    with pytest.raises(FeatureError, match=message):
        source.rows.read(1)
    assert not known_of(source).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "at least one of the functions"),
        ({"entries": entries_of_X, "cost": [1.0]}, r"cost has shape \(1,\)"),
        ({"entries": entries_of_X, "cost": -1.0}, "at least 0; got -1.0"),
        ({"entries": entries_of_X, "cost": lambda j: np.where(j == 2, np.inf, 1.0)}, "got inf"),
        ({"entries": entries_of_X, "dtype": np.int64}, "float32 or float64"),
        ({"entries": entries_of_X, "workers": 0}, "at least 1"),
        ({"entries": entries_of_X, "batch_size": 0}, "at least 1"),
        ({"entries": entries_of_X, "backend": "fork"}, "threads, processes; got 'fork'"),
        ({"entries": call_with("async"), "backend": "processes"}, "need backend='threads'"),
        ({"entries": entries_of_X, "retries": -1}, "at least 0"),
    ],
)
def test_wrong_parameters(options, message):
    with pytest.raises(ValueError, match=message):
        OnDemand(N, D, **options)


def test_an_empty_matrix_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        OnDemand(0, D, entries=entries_of_X)


# The memory on disk


@given(asked=st.lists(ASKED, max_size=6), dtype=st.sampled_from([np.float32, np.float64]))
@settings(max_examples=30, deadline=None)
def test_a_memory_on_disk_holds_all_that_was_computed(tmp_path_factory, asked, dtype):
    path = tmp_path_factory.mktemp("memory") / "features.log"
    functions = Functions()
    with OnDemand(N, D, entries=functions.entries, memory=path, dtype=dtype) as source:
        for one in asked:
            ask(source, *one)
        before = known_of(source)
        prices = source.rows.prices, source.columns.prices
    with OnDemand(N, D, entries=functions.entries, memory=path, dtype=dtype) as again:
        np.testing.assert_array_equal(known_of(again), before)
        for found, expected in zip((again.rows.prices, again.columns.prices), prices, strict=True):
            np.testing.assert_array_equal(found, expected)
        assert again.spent == 0
        np.testing.assert_array_equal(again.block(np.arange(N), np.arange(D)), X)
    assert set(functions.times.values()) == {1}


@pytest.fixture
def log(tmp_path):
    """A log of three records, and the sizes of the file after each of them."""
    path = tmp_path / "features.log"
    with OnDemand(N, D, entries=entries_of_X, memory=path) as source:
        sizes = [os.path.getsize(path)]
        for read in (source.rows.read, source.columns.read, source.rows.read):
            read(len(sizes))
            sizes.append(os.path.getsize(path))
    return path, sizes


def opened(path, **options):
    return OnDemand(N, D, entries=entries_of_X, memory=path, **options)


def test_a_log_that_is_torn_anywhere_keeps_the_records_before(log):
    path, sizes = log
    whole = path.read_bytes()
    for size in range(sizes[-1] + 1):
        path.write_bytes(whole[:size])
        with opened(path) as source:
            records = max(sum(size >= end for end in sizes) - 1, 0)
            assert known_of(source).sum() == [0, D, D + N - 1, 2 * D + N - 2][records]
            assert os.path.getsize(path) == sizes[records]
            source.rows.read(4)  # it can be added to
        with opened(path) as source:
            assert source.rows.prices[4] == 0


def test_zeros_at_the_end_of_a_log_are_torn_too(log):
    path, sizes = log
    path.write_bytes(path.read_bytes()[: sizes[2]] + bytes(100))
    with opened(path) as source:
        assert known_of(source).sum() == D + N - 1
    assert os.path.getsize(path) == sizes[2]


def test_a_byte_that_changed_is_found(log):
    """In the last record it may be the mark of a crash, and the record is dropped; before, it is damage."""
    path, sizes = log
    whole = path.read_bytes()
    for at in range(sizes[0], sizes[-1]):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        record = sum(at >= end for end in sizes) - 1
        if record == 2 and at >= sizes[2] + RECORD.size:
            with opened(path) as source:
                assert known_of(source).sum() == D + N - 1
        else:
            with pytest.raises(LogError, match=f"record at byte {sizes[record]} .* damaged"):
                opened(path)
            assert path.read_bytes() == changed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": "2"}, r"holds features of version '', not of version '2'"),
        ({"dtype": np.float32}, r"dtype 'float64', not of dtype 'float32'"),
    ],
)
def test_a_log_of_other_features_is_refused(log, options, message):
    before = log[0].read_bytes()
    with pytest.raises(LogError, match=message):
        opened(log[0], **options)
    assert log[0].read_bytes() == before


def test_a_log_of_another_shape_is_refused(log):
    with pytest.raises(LogError, match=re.escape("shape [5, 7], not of shape [6, 7]")):
        OnDemand(N + 1, D, entries=entries_of_X, memory=log[0])


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Nothing to be lost.")
    with pytest.raises(LogError, match="is not a log of features"):
        opened(path)
    assert path.read_text() == "Nothing to be lost."


def test_a_damaged_header_is_refused(log):
    changed = bytearray(log[0].read_bytes())
    changed[40] ^= 1
    log[0].write_bytes(changed)
    with pytest.raises(LogError, match="header"):
        opened(log[0])


def test_a_log_that_is_open_is_refused(log):
    pytest.importorskip("fcntl")
    with opened(log[0]), pytest.raises(LogError, match="in use"):
        opened(log[0])
    opened(log[0]).close()


def test_a_full_disk_is_reported_and_entries_are_kept_in_memory(log, monkeypatch):
    with opened(log[0]) as source:
        size = os.path.getsize(log[0])
        real = source._log.file

        class Full:
            """Writes half of a record."""

            def write(self, data):
                return real.write(data[: len(data) // 2])

            def truncate(self, size):
                return real.truncate(size)

        monkeypatch.setattr(source._log, "file", Full())
        with pytest.raises(OSError, match="cannot append to"):
            source.rows.read(0)
        monkeypatch.undo()
        assert os.path.getsize(log[0]) == size
        np.testing.assert_array_equal(source.rows.read(0).lines[0], X[0])
    with opened(log[0]) as source:
        assert known_of(source).sum() == 2 * D + N - 2


# Learning


def learnable(n=60, d=30, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, -1, 1)
    return rng.normal(size=(n, d)) / np.sqrt(d) + 0.3 * y[:, None] / np.sqrt(d), y


@pytest.mark.parametrize("solver", ["simba", Simba(method="paper")])
def test_a_budget_is_in_units_of_cost(solver):
    values, y = learnable()
    costs = np.random.default_rng(1).choice([0.1, 1.0, 5.0], size=30)
    source = OnDemand(*values.shape, entries=lambda i, j: values[i, j], cost=costs)
    budget = 0.3 * 60 * costs.sum()
    model = LinearSVC(solver=solver, slack=0.1, scale=2.0, budget=budget, random_state=0).fit(source, y)
    assert 0.5 * budget < source.spent <= budget * (1 + 1e-12)
    assert model.reads_["cost"] == pytest.approx(source.spent)
    assert not np.isfinite(model.certificate_.gap)
    assert "buy all entries" in str(model.certificate_)
    np.testing.assert_array_equal(model.predict(values).shape, y.shape)


def test_a_scale_is_asked_for_where_finding_it_would_buy_all_entries():
    values, y = learnable()
    source = OnDemand(*values.shape, entries=lambda i, j: values[i, j])
    with pytest.raises(ValueError, match="give an upper bound of the norms as scale="):
        LinearSVC(solver="simba", slack=0.1, budget=500).fit(source, y)
    assert source.spent == 0


@pytest.mark.parametrize("solver", ["simba", "sdca", "pegasos"])
def test_the_form_with_C_is_refused_where_it_would_buy_all_entries(solver):
    values, y = learnable()
    source = OnDemand(*values.shape, entries=lambda i, j: values[i, j])
    with pytest.raises(ValueError, match="give slack="):
        LinearSVC(solver=solver, scale=2.0, budget=500).fit(source, y)
    assert source.spent == 0


def test_a_fit_without_a_budget_is_that_of_the_matrix():
    values, y = learnable()
    source = OnDemand(*values.shape, rows=lambda i: values[i])
    model, expected = LinearSVC().fit(source, y), LinearSVC().fit(values, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
    assert model.certificate_.relative_gap <= 1e-3
    assert source.computed == values.size
    np.testing.assert_array_equal(model.predict(source), expected.predict(values))


def test_a_failure_in_the_middle_of_a_fit_is_raised_and_what_was_paid_for_is_kept():
    values, y = learnable()
    broken = True

    def rows(i):
        if broken and i[0] == 7:
            raise ConnectionError("the line is dead")
        return values[i]

    source = OnDemand(*values.shape, rows=rows, retry_wait=0.0)
    with pytest.raises(FeatureError, match=r"rows\(\) of row 7 failed") as caught:
        LinearSVC().fit(source, y)
    assert caught.value.row == 7
    before = source.computed
    assert before > 0
    broken = False
    LinearSVC().fit(source, y)
    assert source.computed == values.size


def test_runs_on_entries_that_are_all_paid_for_end():
    values, y = learnable()
    source = OnDemand(*values.shape, entries=lambda i, j: values[i, j])
    source.block(np.arange(60), np.arange(30))
    result = solve(SlackSVM(source, y, slack=0.1, scale=2.0), Simba(), budget=1, random_state=0)
    assert result.status == "max_iter"
    assert result.reads["cost"] == 0
