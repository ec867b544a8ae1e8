"""All sets of the arena. Generated ones have "made" in their names; `benchmarks/README.md` says where to get others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import everyday
import kernel_sets
import linear
import numpy as np
from common import covtype_rows
from everyday import Task, bundled
from results import QUICK
from sklearn import datasets
from sklearn.model_selection import train_test_split

from benchmarks.arena.features import LinearSet
from benchmarks.arena.kernels import KernelSet
from benchmarks.arena.searches import SearchSet

Set = LinearSet | KernelSet | SearchSet
Load = Callable[[], tuple[Any, Any]]


def rows_of(task: Callable[[], Task], two: bool = False) -> Load:
    """The training rows as float32; with `two`, the labels are +1 and -1."""

    def load() -> tuple[Any, Any]:
        made = task()
        y = np.where(made.y == np.max(made.y), 1.0, -1.0) if two else made.y.astype(np.float64)
        return made.X.astype(np.float32), y

    return load


def case_of(name: str, n: int | None = None) -> Load:
    """The training rows of a set of kernel_sets.py, all or n drawn ones."""

    def load() -> tuple[Any, Any]:
        data = kernel_sets.drawn(kernel_sets.CASES[name].load(), n)
        return data.X, data.y

    return load


def digits() -> tuple[Any, Any]:
    X, y = datasets.load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y.astype(np.float64)


def mnist_ten() -> tuple[Any, Any]:
    data = kernel_sets.mnist_ten()
    return data.X, data.y.astype(np.float64)


def covtype_seven(rows: int) -> Load:
    def load() -> tuple[Any, Any]:
        X, y = covtype_rows(scaled=True, classes=True)
        chosen = np.random.default_rng(0).permutation(y.size)[:rows]
        return X[chosen], y[chosen].astype(np.float64)

    return load


def letters(rows: int) -> Callable[[], Task]:
    return lambda: everyday.clusters(rows, 16, 26)


def halved(task: Callable[[], Task]) -> Callable[[], tuple[Any, Any, Any, Any]]:
    """Training and test rows from a set without test rows: half of the rows each."""

    def load() -> tuple[Any, Any, Any, Any]:
        made = task()
        X, X_test, y, y_test = train_test_split(made.X, made.y, test_size=0.5, random_state=0, stratify=made.y)
        return X, y, X_test, y_test

    return load


def tested(task: Callable[[], Task]) -> Callable[[], tuple[Any, Any, Any, Any]]:
    """Training and test rows of a set that has both."""

    def load() -> tuple[Any, Any, Any, Any]:
        made = task()
        return made.X, made.y, *made.test

    return load


SETS: tuple[Set, ...] = (
    LinearSet("Adult", linear.SETS["adult"], (1.0, 10.0), quick=True),
    LinearSet("20 Newsgroups", linear.SETS["20news"], (1.0, 10.0), quick=True),
    LinearSet(
        "dense, made",
        rows_of(lambda: everyday.noisy(10_000, 200), two=True),
        (0.01, 1.0),
        dense=True,
        quick=True,
    ),
    LinearSet("sparse, made", rows_of(lambda: everyday.sparse(50_000, 100_000, 50, "LinearSVC"), two=True), (1.0,)),
    LinearSet("news20, rebuilt", linear.SETS["news20"], (1.0, 10.0)),
    LinearSet("MNIST, 8 or not", linear.SETS["mnist"], (0.01, 1.0)),
    LinearSet("Covertype", linear.SETS["covtype"], (0.1, 1.0)),
    KernelSet("splice, small", rows_of(lambda: everyday.small("splice"), two=True), 1 / 60, (1.0, 10.0), quick=True),
    KernelSet("Spambase, small", rows_of(everyday.spambase, two=True), 1 / 57, (1.0, 100.0)),
    KernelSet("Covertype, 5,000 rows, medium", case_of("covtype", 5_000), 1.0, (1.0, 100.0), quick=True),
    KernelSet("MNIST, 8 or not, 10,000 rows, medium", case_of("mnist", 10_000), 0.02),
    KernelSet("Adult, medium", case_of("adult"), 0.05, (1.0, 100.0)),
    KernelSet("Covertype, 50,000 rows, large", case_of("covtype", 50_000), 1.0),
    KernelSet("MNIST, 8 or not, large", case_of("mnist"), 0.02, (1.0, 1000.0)),
    LinearSet("digits, ten classes, linear", digits, dense=True, quick=True),
    LinearSet("MNIST, ten classes, linear", mnist_ten, (0.1,), losses=("squared_hinge",)),
    KernelSet("digits, ten classes", digits, 0.05, (5.0,), quick=True),
    KernelSet("26 classes, made, 3,000 rows", rows_of(letters(3_000)), 1 / 16, (10.0,), quick=True),
    KernelSet("26 classes, made, 15,000 rows", rows_of(letters(15_000)), 1 / 16, (10.0,)),
    KernelSet("Covertype, seven classes, 20,000 rows", covtype_seven(20_000), 1.0, (10.0,)),
    KernelSet("MNIST, ten classes", mnist_ten, 0.02, (5.0,)),
    SearchSet("breast cancer, search", halved(lambda: bundled(datasets.load_breast_cancer)), quick=True),
    SearchSet("German credit, search", halved(lambda: everyday.small("german.numer_scale")), quick=True),
    SearchSet("Spambase, search", halved(everyday.spambase)),
    SearchSet("ten classes, made, search", tested(lambda: everyday.clusters(7_494, 16, 10, spread=1.0))),
)


def sets_of(mode: str) -> Sequence[Set]:
    """The sets of a run in this mode."""
    return [each for each in SETS if each.quick or mode != QUICK]
