"""Cost and exactness of a fit with a slack, compared with a fit with the C that belongs to this slack.

    python benchmarks/exact_slack.py --json exact_slack.json
    python benchmarks/exact_slack.py --sets german splice --kernels rbf --slacks 3

For each set and kernel there are several slacks, from near zero to the largest at which the model still changes, in
geometric progression. Each problem is fitted with `slack`, then with the `C` of the resulting model, both with default
parameters (and the hinge loss for LinearSVC). If both fits together take less than a second, they are repeated and the
better of two times counts. The table shows that C, the relative gap of the slack form, how often the form with C was
solved, the seconds of both fits and their ratio. If the slack is smaller than that of any model, the model has the
least slack possible and is marked "least". Sets that are not found are skipped.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import auto_linear
import kernel_sets
import numpy as np
from common import append_json, arguments, markdown, parse_with_threads
from scipy.sparse import issparse

from maxmargin import SVC, LinearSVC
from maxmargin.kernels.functions import Rbf
from maxmargin.problems import KernelMatrix, SlackSVM
from maxmargin.svm.search_for_C import SearchForC

Data = tuple[Any, Any]
LEAST, LARGEST = 1e-3, 0.9  # range of slacks, in units of the largest one at which the model still changes
SHORT = 1.0  # both fits are repeated if they take fewer seconds together


def mnist() -> Data:
    data = kernel_sets.mnist()
    return data.X, data.y


SETS: dict[str, Callable[[], Data]] = {
    "german": partial(auto_linear.small, "german.numer_scale", dense_rows=True),
    "splice": partial(auto_linear.small, "splice", dense_rows=True),
    "mushrooms": partial(auto_linear.small, "mushrooms"),
    "spambase": auto_linear.spambase,
    "adult": auto_linear.adult,
    "20news": partial(auto_linear.libsvm, "20news/20news_unigram_tfidf.bz2"),
    "mnist": mnist,
}
KERNELS = {"linear": partial(LinearSVC, loss="hinge"), "rbf": partial(SVC, gamma="scale")}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--slacks", type=int, default=10, metavar="N", help="number of slacks for each set and kernel")
    chosen = parse_with_threads(parser)
    lines: list[dict[str, Any]] = []
    for name in chosen.sets:
        try:
            X, y = SETS[name]()
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        for kernel in chosen.kernels:
            for slack in largest_slack(X, y, kernel) * np.geomspace(LEAST, LARGEST, chosen.slacks):
                lines.append({"set": name, "kernel": kernel, **compare(KERNELS[kernel], X, y, float(slack))})
                append_json(chosen.json, lines[-1])
                print(name, kernel, *cells(lines[-1]), flush=True)
    report(lines)


def largest_slack(X: Any, y: Any, kernel: str) -> float:
    """The slack at which every sample is inside the margin of the centroid."""
    signs = np.where(y == np.unique(y)[-1], 1.0, -1.0)
    if kernel == "linear":
        return SlackSVM(X, signs, 0.0).largest_slack()
    variance = X.multiply(X).mean() - X.mean() ** 2 if issparse(X) else X.var()
    return SlackSVM(KernelMatrix(X, Rbf(gamma=1 / (X.shape[1] * variance))), signs, 0.0).largest_slack()


def compare(estimator: Callable[..., Any], X: Any, y: Any, slack: float) -> dict[str, Any]:
    """Run both fits, in turns."""
    seconds: dict[str, list[float]] = {"slack": [], "C": []}
    while len(seconds["slack"]) < 2:
        with counted_solves() as solves:
            model = timed(estimator(slack=slack), X, y, seconds["slack"])
        timed(estimator(C=float(model.C_)), X, y, seconds["C"])
        if seconds["slack"][0] + seconds["C"][0] > SHORT:
            break
    best = {name: min(values) for name, values in seconds.items()}
    return {
        "slack": slack,
        "least": bool(model.slack_ != slack),
        "C": float(model.C_),
        "gap": float(model.certificate_.relative_gap),
        "solves": len(solves),
        "seconds": best["slack"],
        "seconds for C": best["C"],
        "ratio": best["slack"] / best["C"],
    }


def timed(estimator: Any, X: Any, y: Any, seconds: list[float]) -> Any:
    """Fit the estimator, append the seconds, and return the estimator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.perf_counter()
        model = estimator.fit(X, y)
        seconds.append(time.perf_counter() - begin)
    return model


@contextmanager
def counted_solves() -> Iterator[list[int]]:
    """A list that grows by one with each solve; the search for C calls `settle` on each solution."""
    solves, settle = [], SearchForC.settle

    def counting(search: SearchForC, *given: Any, **options: Any) -> Any:
        solves.append(1)
        return settle(search, *given, **options)

    SearchForC.settle = counting  # type: ignore[method-assign]
    try:
        yield solves
    finally:
        SearchForC.settle = settle  # type: ignore[method-assign]


def cells(line: dict[str, Any]) -> list[str]:
    return [
        f"{line['slack']:.3g}" + (" (least)" if line["least"] else ""),
        f"{line['C']:.3g}",
        f"{line['gap']:.1e}",
        str(line["solves"]),
        f"{line['seconds']:.3g}",
        f"{line['seconds for C']:.3g}",
        f"{line['ratio']:.2f}",
    ]


def report(lines: list[dict[str, Any]]) -> None:
    header = ["set", "kernel", "slack", "C", "gap", "solves", "s, slack", "s, C", "ratio"]
    print("\n" + markdown(header, [[line["set"], line["kernel"], *cells(line)] for line in lines]))
    if lines:
        ratios = [line["ratio"] for line in lines]
        above = sum(ratio > 3 for ratio in ratios)
        print(
            f"\nlargest gap {max(line['gap'] for line in lines):.2e}; largest ratio {max(ratios):.2f}, median ratio "
            f"{statistics.median(ratios):.2f}; {above} of {len(ratios)} ratios above 3"
        )


if __name__ == "__main__":
    main()
