"""CPU time of `solver="auto"` of LinearSVC compared with the better of "newton" and "sdca", to the default tolerance.

    python benchmarks/auto_linear.py --json auto.json
    python benchmarks/auto_linear.py --held-out
    python benchmarks/auto_linear.py --shapes 100

Regret is the CPU time of auto divided by the CPU time of the better solver. The three solvers take turns, each turn
with another seed, and the median of each solver counts, because one order of the samples may favour one of them. A
solver that takes `--patience` times as long as the fastest one is stopped, and its time is marked with ">".

The sets of TUNING were used to choose the constants of the cost model in `svm/auto.py`, those of HELD_OUT
(`--held-out`) were not. `--shapes` draws random shapes, with a problem for each; the constants were fitted to 252 of
them. Sets that are not found are skipped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import append_json, arguments, covtype_rows, markdown, mnist_digits, parse_with_threads
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

from maxmargin import LinearSVC
from maxmargin.data import find_dataset, load_adult, read_libsvm

LOSSES = ("hinge", "squared_hinge")
SOLVERS = ("newton", "sdca", "auto")
Data = tuple[Any, Any]


def dense(n: int, d: int, classes: int = 2, noise: float = 1.0, seed: int = 0) -> Data:
    """Gaussian rows, labelled by linear scores plus noise; `noise` is in units of the scores' standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X, labels(X, classes, noise, rng)


def sparse(
    n: int, d: int, stored: int, classes: int = 2, noise: float = 1.0, ones: bool = False, seed: int = 0
) -> Data:
    """Rows of about `stored` entries, drawn by Zipf's law like words: ones, or word weights, with normalised rows."""
    rng = np.random.default_rng(seed)
    chance = 1 / (10 + np.arange(d))
    where = rng.choice(d, size=(n, stored), p=chance / chance.sum())
    counts = sp.csr_matrix((np.ones(n * stored), (np.repeat(np.arange(n), stored), where.ravel())), shape=(n, d))
    if ones:
        counts.data[:] = 1.0
    else:
        held = np.bincount(counts.indices, minlength=d)
        counts.data = (1 + np.log(counts.data)) * np.log((n + 1) / held[counts.indices])
        counts = sp.diags(1 / np.maximum(np.sqrt(counts.multiply(counts).sum(axis=1).A1), 1e-300)) @ counts
    X = sp.csr_matrix(counts, dtype=np.float32)
    return X, labels(X, classes, noise, rng)


def labels(X: Any, classes: int, noise: float, rng: np.random.Generator) -> Any:
    scores = X @ rng.normal(size=(X.shape[1], classes if classes > 2 else 1))
    scores = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    scores += noise * rng.normal(size=scores.shape)
    return scores.argmax(axis=1) if classes > 2 else np.where(scores[:, 0] > 0, 1, -1)


def libsvm(name: str) -> Data:
    X, y = read_libsvm(find_dataset(name), dtype=np.float32)
    return X, y


def small(name: str, dense_rows: bool = False) -> Data:
    X, y = libsvm(f"small/{name}.gz")
    return (X.toarray() if dense_rows else X), y


def bundled(load: Callable[..., Any]) -> Data:
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X).astype(np.float32), y


def spambase() -> Data:
    values = np.loadtxt(find_dataset("spambase/spambase.data.gz"), delimiter=",")
    return StandardScaler().fit_transform(values[:, :-1]).astype(np.float32), values[:, -1]


def adult() -> Data:
    data = load_adult()
    return data[0], data[1]


def mnist() -> Data:
    X, digits = mnist_digits("t10k")
    return X[:5000], digits[:5000]


def covtype() -> Data:
    X, y = covtype_rows(scaled=True, classes=True)
    chosen = np.random.default_rng(0).choice(y.size, 30_000, replace=False)
    return X[chosen], y[chosen]


TUNING: dict[str, Callable[[], Data]] = {
    "breast cancer": partial(bundled, load_breast_cancer),
    "digits": partial(bundled, load_digits),
    "spambase": spambase,
    "adult": adult,
    "mushrooms": partial(small, "mushrooms"),
    "german": partial(small, "german.numer_scale", dense_rows=True),
    "20news": partial(libsvm, "20news/20news_unigram_tfidf.bz2"),
    "dense 20,000 x 5": partial(dense, 20_000, 5),
    "dense 100,000 x 20": partial(dense, 100_000, 20),
    "dense 2,000 x 200": partial(dense, 2_000, 200),
    "dense 3,000 x 500": partial(dense, 3_000, 500, noise=0.5, seed=1),
    "dense 4,000 x 1,000": partial(dense, 4_000, 1_000, noise=0.3),
    "dense 500 x 2,000": partial(dense, 500, 2_000),
    "sparse 3,000 x 600, 20": partial(sparse, 3_000, 600, 20, ones=True, seed=1),
    "sparse 37,000 x 300, 12": partial(sparse, 37_000, 300, 12),
    "sparse 20,000 x 1,500, 30": partial(sparse, 20_000, 1_500, 30, noise=0.3),
    "sparse 80,000 x 1,000, 10": partial(sparse, 80_000, 1_000, 10, ones=True),
    "sparse 5,000 x 50,000, 50, 4 classes": partial(sparse, 5_000, 50_000, 50, classes=4),
}
HELD_OUT: dict[str, Callable[[], Data]] = {
    "splice": partial(small, "splice", dense_rows=True),
    "mnist, 10 classes": mnist,
    "covtype, 7 classes": covtype,
    "reuters": partial(libsvm, "reuters/reuters.trn.bz2"),
    "spam": partial(libsvm, "spam/spamassassin.binary.bz2"),
    "dense 2,500 x 700": partial(dense, 2_500, 700, noise=0.5, seed=2),
    "dense 40,000 x 100": partial(dense, 40_000, 100, seed=1),
    "sparse 50,000 x 500, 8": partial(sparse, 50_000, 500, 8, noise=0.5, seed=1),
    "sparse 10,000 x 3,000, 40, 3 classes": partial(sparse, 10_000, 3_000, 40, classes=3, seed=1),
    "sparse 6,000 x 900, 25": partial(sparse, 6_000, 900, 25, ones=True, seed=2),
}


def shape(seed: int) -> tuple[str, Data]:
    """The name of a random shape, and data of that shape."""
    rng = np.random.default_rng([seed, 1])
    while True:
        n, d = round(10 ** rng.uniform(2.7, 5)), round(10 ** rng.uniform(0.7, 3.7))
        stored = d if rng.random() < 0.4 else max(2, round(min(10 ** rng.uniform(0.5, 2.3), 0.3 * d)))
        if n * stored <= 6e6:
            break
    noise = float(rng.choice([0.1, 0.5, 2.0]))
    if stored == d:
        return f"dense {n:,} x {d:,}, noise {noise:g}", dense(n, d, noise=noise, seed=seed)
    ones = bool(rng.random() < 0.5)
    kind = "ones" if ones else "words"
    return f"{kind} {n:,} x {d:,}, {stored}, noise {noise:g}", sparse(n, d, stored, noise=noise, ones=ones, seed=seed)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--held-out", action="store_true", help="use the sets that were not used for tuning")
    parser.add_argument("--shapes", type=int, metavar="N", help="use N random shapes instead of sets")
    parser.add_argument("--first", type=int, default=0, help="seed of the first random shape")
    parser.add_argument("--sets", nargs="+", choices=[*TUNING, *HELD_OUT], help="use only these sets")
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=SOLVERS)
    parser.add_argument("--C", type=float, nargs="+", default=[0.01, 1, 100])
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES)
    parser.add_argument("--repeats", type=int, default=5, help="maximum number of fits per solver")
    parser.add_argument("--seconds", type=float, default=1, help="CPU seconds after which a solver is not repeated")
    parser.add_argument("--patience", type=float, default=6, help="limit of a fit, in multiples of the fastest fit")
    chosen = parse_with_threads(parser)
    rows, regrets = [], []
    for name, X, y, C, loss in cases(chosen):
        warnings.simplefilter("ignore")  # from fits that are stopped
        figures = compare(X, y, C, loss, chosen)
        n_stored = int(X.nnz) if sp.issparse(X) else X.size
        about = {"set": name, "n": X.shape[0], "d": X.shape[1], "stored": n_stored, "C": C, "loss": loss}
        about |= {"sparse": sp.issparse(X), "classes": int(np.unique(y).size)}
        append_json(chosen.json, about | {"fits": figures})
        best = min(figure["cpu"] for solver, figure in figures.items() if solver != "auto")
        row = [name, loss.replace("_", " "), f"{C:g}", *(seconds(figures.get(solver)) for solver in chosen.solvers)]
        if "auto" in figures:
            regrets.append(figures["auto"]["cpu"] / best)
            row += [figures["auto"]["solver"], f"{figures['auto']['wall']:.3g}", f"{regrets[-1]:.2f}"]
        rows.append(row)
        print(" | ".join(row), flush=True)
    print("\n" + markdown(["set", "loss", "C", *chosen.solvers, "chosen", "wall", "regret"], rows))
    if regrets:
        above = sum(regret > 1.3 for regret in regrets)
        mean = np.exp(np.log(regrets).mean())
        print(f"\nregret: geometric mean {mean:.3f}, maximum {max(regrets):.2f}; ", end="")
        print(f"above 1.3 in {above} of {len(regrets)} cases")


def cases(chosen: Any) -> Iterator[tuple[str, Any, Any, float, str]]:
    if chosen.shapes:
        for seed in range(chosen.first, chosen.first + chosen.shapes):
            rng = np.random.default_rng([seed, 2])
            name, (X, y) = shape(seed)
            yield name, X, y, round(float(10 ** rng.uniform(-2, 2)), 3), str(rng.choice(chosen.losses))
        return
    sets = HELD_OUT if chosen.held_out else TUNING
    for name in chosen.sets or sets:
        try:
            X, y = (TUNING | HELD_OUT)[name]()
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        for loss in chosen.losses:
            for C in chosen.C:
                yield name, X, y, C, loss


def compare(X: Any, y: Any, C: float, loss: str, chosen: Any) -> dict[str, dict[str, Any]]:
    """The fit of each solver with the median CPU time; the solvers take turns."""
    figures: dict[str, list[dict[str, Any]]] = {}
    spent = dict.fromkeys(chosen.solvers, 0.0)
    for seed in range(chosen.repeats):
        for solver in chosen.solvers:
            if spent[solver] > chosen.seconds:
                continue
            others = [figure["wall"] for fits in figures.values() for figure in fits if figure["ended"]]
            patience = max(0.1, chosen.patience * min(others)) if others else None
            figure = fit(X, y, C, loss, solver, seed, patience)
            if figure is None:
                spent[solver] = np.inf
                continue
            spent[solver] += figure["cpu"] if figure["ended"] else np.inf
            figures.setdefault(solver, []).append(figure)
    return {solver: sorted(fits, key=itemgetter("cpu"))[(len(fits) - 1) // 2] for solver, fits in figures.items()}


def fit(X: Any, y: Any, C: float, loss: str, solver: str, seed: int, patience: float | None) -> dict[str, Any] | None:
    """One fit; None if the solver does not take the data."""
    model = LinearSVC(C=C, loss=loss, solver=solver, max_time=patience, random_state=seed)
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        model.fit(X, y)
    except ValueError:
        return None
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    took = {"cpu": cpu, "wall": wall, "ended": "max_time" not in np.ravel(model.stopped_)}
    return took | {"solver": model.solver_, "n_iter": int(model.n_iter_), "entries_read": int(model.entries_read_)}


def seconds(figure: dict[str, Any] | None) -> str:
    if figure is None:
        return "-"
    return f"{'' if figure['ended'] else '> '}{figure['cpu']:.3g}"


if __name__ == "__main__":
    main()
