"""The share of the cost of all features that a linear model needs to decide test samples: prediction by need.

    python benchmarks/predict_by_need.py --json predict_by_need.json

LinearSVC with C = 0.1 (MNIST, Adult) or 1 (text) is fitted to the training samples. The ranges of their features are
used for the test samples. `decide` asks for the most decisive features for their cost until the label is certain. The
table shows the mean cost of a sample as a share of the cost of all features, with equal prices and with prices drawn
from 1, 10 and 100; the share of features whose weights are not zero, all of which a model without bounds asks for; the
number of labels that differ from those of all features; and the share of equal labels if a sample may cost a tenth or a
quarter of all features.

MNIST: 60,000 training digits, 10,000 test digits, 8 against the rest and all ten classes. Adult comes with the package.
20 Newsgroups: 8,000 training texts, 11,997 test texts. Sets that are missing are skipped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import arguments, markdown, mnist_digits, parse_with_threads, write_json

from maxmargin import LinearSVC
from maxmargin.data import feature_ranges, find_dataset, load_adult, read_libsvm
from maxmargin.estimators import RangeWarning

BUDGETS = (0.1, 0.25)  # as shares of the cost of all features
Split = tuple[Any, Any, Any, Any]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seed", type=int, default=0, help="seed of the prices, and of the split of the text")
    chosen = parse_with_threads(parser)
    figures = []
    for name, (load, C) in SETS.items():
        try:
            X, y, X_test, y_test = load(chosen.seed)
        except FileNotFoundError as missing:
            print(f"{name}: skipped, {missing}")
            continue
        model = LinearSVC(C=C).fit(X, y)
        figures += [
            {"set": name, **measure(model, X_test, y_test, feature_ranges(X), kind, cost)}
            for kind, cost in prices(X.shape[1], chosen.seed)
        ]
    write_json(chosen.json, figures)
    header = ["set", "prices", "test error", "used", "cost", "labels that differ", "values outside"]
    rows = [
        [
            figure["set"],
            figure["prices"],
            f"{figure['error']:.2%}",
            f"{figure['used']:.1%}",
            f"{figure['cost']:.1%}",
            figure["differ"],
            figure["outside"],
            *(f"{share:.2%}" for share in figure["equal"]),
        ]
        for figure in figures
    ]
    print(markdown([*header, *(f"equal labels at {budget:.0%}" for budget in BUDGETS)], rows))


def prices(d: int, seed: int) -> list[tuple[str, Any]]:
    return [("equal", np.ones(d)), ("1, 10, 100", np.random.default_rng(seed).choice([1.0, 10.0, 100.0], size=d))]


def measure(model: LinearSVC, X: Any, y: Any, ranges: Any, kind: str, cost: Any) -> dict[str, Any]:
    expected = model.predict(X)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RangeWarning)
        decisions = model.decide(X, ranges=ranges, cost=cost)
        within = [model.decide(X, ranges=ranges, cost=cost, budget=share * cost.sum()) for share in BUDGETS]
    return {
        "prices": kind,
        "error": float(np.mean(expected != y)),
        "used": float(cost[(model.coef_ != 0).any(axis=0)].sum() / cost.sum()),
        "cost": float(decisions.cost.mean() / cost.sum()),
        "differ": int(np.count_nonzero(decisions.labels != expected)),
        "outside": str(caught[0].message).split()[0] if caught else "0",
        "equal": [float(np.mean(one.labels == expected)) for one in within],
    }


def mnist(digit: int | None) -> Callable[[int], Split]:
    def load(seed: int) -> Split:
        (X, y), (X_test, y_test) = mnist_digits("train"), mnist_digits("t10k")
        return (X, y, X_test, y_test) if digit is None else (X, y == digit, X_test, y_test == digit)

    return load


def adult(seed: int) -> Split:
    return load_adult()


def news(seed: int) -> Split:
    (source,) = find_dataset("20news").glob("*.bz2")
    X, y = read_libsvm(source, dtype=np.float32)
    order = np.random.default_rng(seed).permutation(y.size)
    return X[order[:8000]], y[order[:8000]], X[order[8000:]], y[order[8000:]]


SETS: dict[str, tuple[Callable[[int], Split], float]] = {
    "MNIST, 8 against the rest": (mnist(8), 0.1),
    "MNIST, ten digits": (mnist(None), 0.1),
    "Adult": (adult, 0.1),
    "20 Newsgroups": (news, 1.0),
}


if __name__ == "__main__":
    main()
