"""Samples in parts: sums whose bits depend on nothing but the number of rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core import Matrix
from maxmargin.engine import parts
from maxmargin.engine.parts import LocalRows, Scattered, TreeSum, rows_per_unit, slices


@given(st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_order_of_parts_does_not_matter(count: int, random: object) -> None:
    values = np.random.default_rng(count).normal(size=(count, 3))
    whole, shuffled, groups = TreeSum(), TreeSum(), [TreeSum() for _ in range(3)]
    for k in range(count):
        whole.add(k, (values[k].copy(), float(values[k, 0])))
    order = list(range(count))
    random.shuffle(order)  # type: ignore[attr-defined]
    for k in order:
        shuffled.add(k, (values[k].copy(), float(values[k, 0])))
        groups[k % 3].add(k, (values[k].copy(), float(values[k, 0])))
    merged = TreeSum()
    for group in groups:
        merged.merge(group.nodes)
    expected = whole.total()
    for other in (shuffled.total(), merged.total()):
        np.testing.assert_array_equal(other[0], expected[0])
        assert other[1] == expected[1]
    np.testing.assert_allclose(expected[0], values.sum(axis=0), atol=1e-12)


@given(st.integers(1, 10**9))
def test_parts_and_units_fit_into_each_other(n: int) -> None:
    assert rows_per_unit(n) % parts.PART_ROWS == 0
    assert -(-n // rows_per_unit(n)) <= parts.MOST_UNITS


class Total:
    def __init__(self, rows: parts.PartRows, factor: float) -> None:
        self.rows, self.factor = rows, factor

    def sums(self, p: np.ndarray) -> tuple[np.ndarray, float]:
        return self.factor * self.rows.dot_transposed(p), float(p.sum())

    def scale(self, factor: float) -> tuple[int]:
        self.factor *= factor
        return (self.rows.count,)

    def numbers(self) -> np.ndarray:
        return self.rows.rows(slice(None))


@pytest.mark.parametrize("units", [False, True])
def test_local_parts(monkeypatch: pytest.MonkeyPatch, units: bool) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 64)
    monkeypatch.setattr(parts, "ENTRIES_FOR_THREADS", 0)
    rng = np.random.default_rng(0)
    X, p = rng.normal(size=(5000, 4)), rng.normal(size=5000)
    answers = []
    for threads in (1, 2):
        matrix = Matrix(X, threads)
        placed = LocalRows(matrix, 5000).place(Total, 2.0, units=units)
        assert placed.update("scale", 0.5) == (5000,)
        answers.append(placed.total("sums", Scattered(p)))
        np.testing.assert_array_equal(np.concatenate(placed.collect("numbers")), np.arange(5000))
    np.testing.assert_array_equal(answers[0][0], answers[1][0])
    np.testing.assert_allclose(answers[0][0], X.T @ p)
    assert answers[0][1] == pytest.approx(p.sum())


def test_slices_cover_all_rows() -> None:
    assert [each.stop - each.start for each in slices(10, 4)] == [4, 4, 2]
