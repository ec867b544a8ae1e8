"""SVC with an rbf kernel on a memory-mapped file, compared with Nystroem features and a linear model in the same time.

    python benchmarks/kernel_memmap.py --folder /disk --max-time 600

The data are 1,000,000 x 50 float32 samples from 4,000 Gaussian clusters. Each cluster has a random label, so no linear
model separates them, and more samples show more clusters. Each entrant has a process of its own and the same gamma.
`SVC` may use two GB, of which its cache of kernel rows takes 1.5. The pipeline is scikit-learn's: `Nystroem` fitted to
20,000 rows, and `SGDClassifier.partial_fit` on blocks of 10,000 transformed rows, pass after pass until the time is up.
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
from stores import memory_of

D, CLUSTERS, TEST_ROWS = 50, 4000, 50_000
SPREAD = 0.45  # standard deviation of a cluster; the centres have standard deviation 1
GAMMA = 0.02
BLOCK = 10_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the file, written if it is missing")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--max-time", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--entrants", nargs="+", default=list(ENTRANTS), choices=ENTRANTS)
    parser.add_argument("--one", choices=ENTRANTS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one, chosen.folder, chosen.max_time)))
        return
    write_data(chosen.folder, chosen.rows)
    figures = []
    for entrant in chosen.entrants:
        command = [sys.executable, "-W", "ignore", __file__, "--folder", chosen.folder, "--one", entrant]
        command += ["--max-time", str(chosen.max_time)]
        answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment())
        figures.append({"entrant": entrant} | json.loads(answer.stdout))
        print(figures[-1], flush=True)
    write_json(chosen.json, figures)
    rows = [
        [f["entrant"], *(f"{f[key]:.3g}" for key in ("seconds", "cpu", "peak", "anonymous", "error"))] for f in figures
    ]
    header = ["entrant", "seconds", "CPU s", "peak MB", "MB without page cache", "test error, %"]
    print("\n" + markdown(header, rows))


def write_data(folder: Path, n: int) -> None:
    if (folder / "y.npy").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    centres, labels = rng.standard_normal((CLUSTERS, D)), np.where(rng.random(CLUSTERS) < 0.5, -1, 1)
    for name, rows in (("test_", TEST_ROWS), ("", n)):
        X = np.lib.format.open_memmap(folder / f"{name}X.npy", "w+", np.float32, (rows, D))
        cluster = rng.integers(CLUSTERS, size=rows)
        for start in range(0, rows, BLOCK):
            some = slice(start, min(start + BLOCK, rows))
            X[some] = centres[cluster[some]] + SPREAD * rng.standard_normal((some.stop - start, D))
        X.flush()
        np.save(folder / f"{name}y.npy", labels[cluster])


def measure(entrant: str, folder: Path, max_time: float) -> dict[str, float]:
    X, y = np.load(folder / "X.npy", mmap_mode="r"), np.load(folder / "y.npy")
    began, cpu = time.perf_counter(), time.process_time()
    predict = ENTRANTS[entrant](X, y, max_time)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak, anonymous = memory_of("VmHWM"), memory_of("RssAnon")
    wrong = np.mean(predict(np.load(folder / "test_X.npy")) != np.load(folder / "test_y.npy"))
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "anonymous": anonymous, "error": 100 * float(wrong)}


def svc(X: Any, y: Any, max_time: float, **options: Any) -> Any:
    from maxmargin import SVC

    model = SVC(C=1.0, gamma=GAMMA, cache_size=1500, max_time=max_time, random_state=0, **options).fit(X, y)
    print(model.solver_, model.stopped_, model.n_support_, model.certificate_, file=sys.stderr)
    return model.predict


def nystroem(X: Any, y: Any, max_time: float, components: int) -> Any:
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier

    end, rng = time.perf_counter() + max_time, np.random.default_rng(0)
    features = Nystroem(gamma=GAMMA, n_components=components, random_state=0)
    features.fit(X[np.sort(rng.choice(len(y), min(len(y), 20_000), replace=False))])
    model, passes = SGDClassifier(alpha=1e-7, average=True, random_state=0), 0.0
    while time.perf_counter() < end:
        for start in rng.permutation(np.arange(0, len(y), BLOCK)):
            some = slice(start, start + BLOCK)
            model.partial_fit(features.transform(X[some]), y[some], classes=[-1, 1])
            passes += len(y[some]) / len(y)
            if time.perf_counter() >= end:
                break
    print(f"{components} components, {passes:.1f} passes", file=sys.stderr)
    return lambda test: model.predict(features.transform(test))


ENTRANTS = {
    "SVC": svc,
    "SVC(slack=0.1, solver='sbp')": lambda X, y, max_time: svc(X, y, max_time, slack=0.1, solver="sbp"),
    "Nystroem 500 + SGD": lambda X, y, max_time: nystroem(X, y, max_time, 500),
    "Nystroem 2000 + SGD": lambda X, y, max_time: nystroem(X, y, max_time, 2000),
}

if __name__ == "__main__":
    main()
