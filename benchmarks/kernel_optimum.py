"""Agreement of the optimum of a kernel SVM with LIBSVM's: objectives and test labels, for many C and all kernels.

    python benchmarks/kernel_optimum.py --json optimum.jsonl

maxmargin.SVC at a relative gap of `--tol` is compared with scikit-learn's SVC, which is LIBSVM, at its tolerance
`--peer-tol`. The objectives are computed in float64 from the support vectors, coefficients and intercepts of each (see
kernel_quality.py). With more than two classes there is a problem for each pair of classes, and the table shows the
worst one.

- "dual": how far our dual objective is below LIBSVM's, as a share of it; negative if ours is better;
- "primal": how far our primal objective is above LIBSVM's, as a share of it;
- "gap": (P - D) / P of ours, and of LIBSVM;
- "labels that differ": how many test labels differ, and how many test rows there are.

Sets: `--rows` digits of MNIST, 8 against the rest and ten classes; `--rows` rows of Adult; and 26 classes of points in
16 dimensions, several clouds each, as many classes as letters. Sets that are not found are skipped. LIBSVM has no model
without a bias, so for these models there is only our own gap. The function "sigmoid" is not an inner product, so its
dual is not concave, and neither library need find the best point.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import append_json, arguments, markdown, parse_with_threads
from kernel_quality import Function, Quality, quality, two_class_models
from kernel_sets import CASES, Data, drawn, mnist, mnist_ten
from sklearn.svm import SVC as Peer

from maxmargin import SVC


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kernels", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument("--C", type=float, nargs="+", default=[0.1, 1, 10, 100, 1000])
    parser.add_argument("--rows", type=int, default=10_000, help="number of training rows")
    parser.add_argument("--tol", type=float, default=1e-5, help="relative gap at which maxmargin stops")
    parser.add_argument("--peer-tol", type=float, default=1e-4, help="tolerance at which LIBSVM stops")
    parser.add_argument("--max-iter", type=int, default=2_000_000, help="maximum number of steps of LIBSVM")
    parser.add_argument("--max-time", type=float, default=600, help="limit of our fits in seconds")
    chosen = parse_with_threads(parser)
    lines = []
    for name in chosen.sets:
        try:
            data = drawn(SETS[name](chosen.rows), chosen.rows)
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        for kernel in chosen.kernels:
            for C in chosen.C:
                for bias in (True, False):
                    row = {"set": name, "n": data.y.size, "kernel": kernel, "C": C, "bias": bias}
                    row |= agreement(data, kernel, C, bias, chosen)
                    append_json(chosen.json, row)
                    lines.append(line(row))
                    print(" | ".join(map(str, lines[-1])), file=sys.stderr, flush=True)
    header = ["set", "n", "kernel", "C", "bias", "dual", "primal", "gap", "LIBSVM's gap", "labels that differ"]
    print(markdown([*header, "seconds", "LIBSVM's"], lines))


def letters(rows: int) -> Data:
    """26 classes of three clouds each, in 16 dimensions."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(26, 3, 16))
    y = rng.integers(26, size=2 * rows)
    X = centres[y, rng.integers(3, size=y.size)] + 0.6 * rng.normal(size=(y.size, 16))
    X = X.astype(np.float32)
    return Data(X[:rows], y[:rows], X[rows:], y[rows:])


SETS: dict[str, Callable[[int], Data]] = {
    "mnist 8 against the rest": lambda rows: mnist(),
    "adult": lambda rows: CASES["adult"].load(),
    "mnist ten classes": lambda rows: mnist_ten(),
    "letters": letters,
}
KERNELS = {"linear": {}, "rbf": {}, "poly": {"coef0": 1.0, "degree": 3}, "sigmoid": {"coef0": 0.0}}


def agreement(data: Data, kernel: str, C: float, bias: bool, chosen: Any) -> dict[str, Any]:
    """Fit both libraries, or only ours if there is no bias, and compare."""
    gamma = 0.1 if kernel == "sigmoid" else 1.0
    gamma /= float(np.mean(sq_norms(data.X)))
    options = {"C": C, "kernel": kernel, "gamma": gamma, "cache_size": 2000, **KERNELS[kernel]}
    k = Function(kernel, gamma, **KERNELS[kernel])
    limits = {"tol": chosen.tol, "max_time": chosen.max_time}
    ours, seconds = fitted(SVC(fit_intercept=bias, random_state=0, **limits, **options), data)
    found = {"seconds": seconds, "gap": 0.0, "stopped": sorted(set(np.atleast_1d(ours.stopped_).tolist()))}
    own = qualities(k, data, C, bias, ours)
    found["gap"] = max(each.gap for each in own)
    if not bias:
        return found
    peer, seconds = fitted(Peer(tol=chosen.peer_tol, max_iter=chosen.max_iter, **options), data)
    others = qualities(k, data, C, bias, peer)
    differing = int((ours.predict(data.X_test) != peer.predict(data.X_test.astype(np.float64))).sum())
    return found | {
        "dual": max((other.dual - each.dual) / abs(other.dual) for each, other in zip(own, others, strict=True)),
        "primal": max((each.primal - other.primal) / other.primal for each, other in zip(own, others, strict=True)),
        "peer_gap": max(other.gap for other in others),
        "peer_seconds": seconds,
        "differ": differing,
        "tested": data.y_test.size,
    }


def sq_norms(X: Any) -> Any:
    return X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)


def fitted(model: Any, data: Data) -> tuple[Any, float]:
    """The fitted model and its CPU seconds; both libraries get float64, because they are compared to many digits."""
    started = time.process_time()
    return model.fit(data.X.astype(np.float64), data.y), time.process_time() - started


def qualities(k: Function, data: Data, C: float, bias: bool, model: Any) -> Sequence[Quality]:
    """The quality of the model of each pair of classes."""
    coef = model.dual_coef_.toarray() if sp.issparse(model.dual_coef_) else model.dual_coef_
    if len(model.classes_) == 2:
        return [quality(k, data.X, data.y, C, model.support_, coef[0], float(model.intercept_[0]), bias)]
    pairs = two_class_models(model.classes_, data.y, model.support_, coef, model.intercept_)
    return [
        quality(k, data.X[rows], labels, C, support, own, float(intercept), bias)
        for _, rows, labels, support, own, intercept in pairs
    ]


def line(row: dict[str, Any]) -> list[Any]:
    """A line of the table."""
    case = [row["set"], f"{row['n']:,}", row["kernel"], f"{row['C']:g}", "yes" if row["bias"] else "no"]
    compared = [f"{row.get(name, math.nan):.1e}" for name in ("dual", "primal", "gap", "peer_gap")]
    differ = f"{row['differ']} of {row['tested']:,}" if "differ" in row else ""
    took = [f"{row[name]:#.3g}" if name in row else "" for name in ("seconds", "peer_seconds")]
    return [cell if cell != "nan" else "" for cell in [*case, *compared, differ, *took]]


if __name__ == "__main__":
    main()
