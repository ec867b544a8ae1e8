"""A dense float32 matrix in a Zarr store that is far larger than the cache: bytes fetched, time, and memory.

    python benchmarks/stores.py --folder /disk/stores --gigabytes 20

The samples are x_j = j^(-1/2) (y m_j + N(0, 1)), so that later features matter less, as in most data; the best error is
about 5 %. n is twice d. Three stores are written, once: `by_block.zarr` with chunks of 100 rows, for solvers that
stream; `by_line.zarr`, whose `X` has a chunk for each row and whose `X_by_column` has a chunk for each column, for
SIMBA; and `test.zarr` with 4,000 more samples.

Each entrant has a process of its own, with one GB of cache. Memory is the peak of the resident set, and the part of the
resident set at the end that is not page cache of a file. "passes" is the number of bytes fetched divided by those of
the matrix. "x needed" is the number of bytes that SIMBA fetches divided by those of the rows and columns that it reads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, environment, markdown, write_json

TEST_ROWS = 4000
BLOCK = 100  # rows per chunk for solvers that stream: 20 MB with 50,000 features
BAND = 5000  # rows generated at a time
TILE = 500  # columns of the tiles by which the matrix is transposed
SHARE = 0.02  # the budget of SIMBA, as a share of the entries
CACHE = 1_000_000_000  # bytes
SIGNAL = 1.65  # |m|; the best error is the probability that a standard normal variable exceeds it


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the stores, written if they are missing")
    parser.add_argument("--gigabytes", type=float, default=20.0, help="size of one store; three times that is written")
    parser.add_argument("--entrants", nargs="+", default=list(ENTRANTS), choices=ENTRANTS)
    parser.add_argument("--one", choices=ENTRANTS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.folder)))
        return
    d = BAND * max(1, round((chosen.gigabytes * 1e9 / 8) ** 0.5 / BAND))
    n = 2 * d
    print(f"{n:,} x {d:,} float32, {4e-9 * n * d:.1f} GB; cache {CACHE / 1e9:g} GB\n")
    write_stores(chosen.folder, n, d)
    figures = []
    for entrant in chosen.entrants:
        command = [sys.executable, "-W", "ignore", __file__, "--folder", chosen.folder, "--one", entrant]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment())
        figures.append({"entrant": entrant} | json.loads(answer.stdout))
        print(figures[-1], flush=True)
    write_json(chosen.json, figures)
    header = [
        "entrant",
        "seconds",
        "CPU s",
        "GB fetched",
        "passes",
        "x needed",
        "peak MB",
        "MB without page cache",
        "test error, %",
        "gap",
    ]
    rows = [
        [
            f["entrant"],
            *(
                f"{f[key]:.3g}"
                for key in ("seconds", "cpu", "gigabytes", "passes", "needed", "peak", "anonymous", "error", "gap")
            ),
        ]
        for f in figures
    ]
    print("\n" + markdown(header, rows))


# The stores


def write_stores(folder: Path, n: int, d: int) -> None:
    """Write the stores that are missing."""
    import zarr

    if (folder / "done").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    began, rng = time.perf_counter(), np.random.default_rng(0)
    scales = np.arange(1, d + 1, dtype=np.float32) ** -0.5
    signal = rng.standard_normal(d, dtype=np.float32) * scales
    signal *= SIGNAL / np.linalg.norm(signal)

    def samples(rows: int) -> tuple[Any, Any]:
        y = np.where(rng.random(rows) < 0.5, -1, 1)
        X = rng.standard_normal((rows, d), dtype=np.float32)
        for start in range(0, rows, BLOCK):  # avoids a second array of this size
            some = slice(start, start + BLOCK)
            X[some] += y[some, None] * signal
            X[some] *= scales
        return X, y

    def create(
        path: str, shape: tuple[int, int], chunks: tuple[int, int], shards: tuple[int, int] | None = None
    ) -> Any:
        return zarr.create_array(
            folder / path, shape=shape, chunks=chunks, shards=shards, dtype="f4", compressors=None, overwrite=True
        )

    X, y = samples(TEST_ROWS)
    create("test.zarr", X.shape, (BLOCK, d))[:] = X
    np.save(folder / "test_y.npy", y)
    blocks = create("by_block.zarr", (n, d), (BLOCK, d))
    zarr.create_group(folder / "by_line.zarr", overwrite=True)
    lines = create("by_line.zarr/X", (n, d), (1, d), (BLOCK, d))
    (folder / "tiles").mkdir(exist_ok=True)
    labels = []
    for start in range(0, n, BAND):
        X, y = samples(min(BAND, n - start))
        labels.append(y)
        for part in range(0, len(X), BLOCK):
            blocks[start + part : start + part + BLOCK] = X[part : part + BLOCK]
            lines[start + part : start + part + BLOCK] = X[part : part + BLOCK]
        for first in range(0, d, TILE):
            np.save(folder / f"tiles/{first}_{start}.npy", X[:, first : first + TILE].T)
        print(f"{start + len(X):,} rows written, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    np.save(folder / "y.npy", np.concatenate(labels))
    columns = create("by_line.zarr/X_by_column", (n, d), (n, 1), (n, TILE // 10))
    for first in range(0, d, TILE):
        tiles = [folder / f"tiles/{first}_{start}.npy" for start in range(0, n, BAND)]
        columns[:, first : first + TILE] = np.concatenate([np.load(tile) for tile in tiles], axis=1).T
        for tile in tiles:
            tile.unlink()
    (folder / "done").touch()
    print(f"stores written in {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


# The entrants


def measure(entrant: str, folder: Path) -> dict[str, float]:
    """Fit and test one entrant in this process."""
    y = np.load(folder / "y.npy")
    began, cpu = time.perf_counter(), time.process_time()
    decide, figures = ENTRANTS[entrant](folder, y)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    memory = {"peak": memory_of("VmHWM"), "anonymous": memory_of("RssAnon")}
    predicted = decide(folder / "test.zarr")
    wrong = np.mean(predicted != np.load(folder / "test_y.npy")[: len(predicted)])
    return {"seconds": seconds, "cpu": cpu, **memory, "error": 100 * float(wrong), **figures}


def memory_of(kind: str) -> float:
    """Memory of this process in MB, of a kind that Linux reports; NaN on other systems."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return next(int(line.split()[1]) / 1e3 for line in lines if line.startswith(kind))


def ours(folder: Path, y: Any, store: str, **options: Any) -> tuple[Any, dict[str, float]]:
    from maxmargin import LinearSVC
    from maxmargin.data.stores import open_store

    X = open_store(folder / store, cache_size=CACHE)
    if "budget" in options:
        options["budget"] = int(options["budget"] * X.n_stored)
    model = LinearSVC(random_state=0, **options).fit(X, y)
    read = sum(count for name, count in model.reads_.items() if "dense" not in name and "fetched" not in name)
    fetched = model.reads_["bytes fetched"]
    print(model.solver_, model.reads_, model.stopped_, file=sys.stderr)
    figures = {
        "gigabytes": fetched / 1e9,
        "passes": fetched / (4 * X.n_stored),
        "needed": fetched / (4 * read) if "budget" in options else float("nan"),
        "gap": model.certificate_.relative_gap,
    }
    return lambda test: model.predict(open_store(test, cache_size=CACHE)), figures


def sgd(folder: Path, y: Any, share: float = 1.0) -> tuple[Any, dict[str, float]]:
    """One pass of scikit-learn's SGDClassifier over the chunks, or over a share of them, in a random order."""
    import zarr
    from sklearn.linear_model import SGDClassifier

    X = zarr.open_array(folder / "by_block.zarr", mode="r")
    model = SGDClassifier(alpha=1 / (0.01 * len(y)), random_state=0)
    blocks = len(y) // BLOCK
    for k in np.random.default_rng(0).permutation(blocks)[: round(share * blocks)]:
        rows = slice(k * BLOCK, (k + 1) * BLOCK)
        model.partial_fit(X[rows], y[rows], classes=[-1, 1])
    figures = {"gigabytes": 4e-9 * share * X.size, "passes": share, "needed": float("nan"), "gap": float("nan")}
    test = lambda path: model.predict(zarr.open_array(path, mode="r")[:])  # noqa: E731
    return test, figures


def vowpal_wabbit(folder: Path, y: Any) -> tuple[Any, dict[str, float]]:
    """Vowpal Wabbit, which reads text: a thousandth of a pass, from which the time of a pass can be estimated."""
    import vowpalwabbit
    import zarr

    X = zarr.open_array(folder / "by_block.zarr", mode="r")
    model = vowpalwabbit.Workspace("--loss_function hinge --quiet -b 18")

    def text(row: Any) -> str:
        return "| " + " ".join(f"{j}:{x:.6g}" for j, x in enumerate(row.tolist()))

    for start in range(0, max(BLOCK, len(y) // 1000), BLOCK):
        for label, row in zip(y[start : start + BLOCK], X[start : start + BLOCK], strict=True):
            model.learn(f"{label} {text(row)}")
    figures = {"gigabytes": 4e-12 * X.size, "passes": 1e-3, "needed": float("nan"), "gap": float("nan")}

    def predict(path: Path) -> Any:
        return np.array([1 if model.predict(text(row)) > 0 else -1 for row in zarr.open_array(path, mode="r")[:200]])

    return predict, figures


ENTRANTS = {
    "LinearSVC(C=0.01)": lambda folder, y: ours(folder, y, "by_block.zarr", C=0.01),
    "LinearSVC(C=0.01, loss='hinge')": lambda folder, y: ours(folder, y, "by_block.zarr", C=0.01, loss="hinge"),
    "LinearSVC(slack=0.02, budget=2 %)": lambda folder, y: ours(
        folder, y, "by_line.zarr", slack=0.02, budget=SHARE, scale=5.0, certify=False
    ),
    "the same, chunks of rows only": lambda folder, y: ours(
        folder, y, "by_block.zarr", slack=0.02, budget=SHARE, scale=5.0, certify=False
    ),
    "SGDClassifier, one pass": sgd,
    "SGDClassifier, 2 % of the rows": lambda folder, y: sgd(folder, y, SHARE),
    "Vowpal Wabbit, a thousandth of a pass": vowpal_wabbit,
}

if __name__ == "__main__":
    main()
