"""Prediction of MNIST digits with a kernel: maxmargin, scikit-learn and scikit-learn-intelex, with the same model.

    python benchmarks/kernel_predict.py --peers-python PEERS/bin/python --json predict.jsonl

scikit-learn's SVC is trained on `--rows` digits with gamma = 0.02 and C = 1: on 8 against the rest, and on all ten
classes. All competitors get its support vectors, coefficients and intercepts. Each runs in a new process with the
default environment and `n_jobs`, which is what a user gets, and in one with a single thread, pinned to a core. Only
`predict` of the 10,000 test digits is timed, and the best of `--repeats` counts. maxmargin and intelex get float32,
scikit-learn float64, to which it would convert otherwise. Labels are compared with scikit-learn's. scikit-learn-intelex
cannot take over a model, so it trains its own.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

COMPETITORS = ("scikit-learn", "maxmargin", "intelex")
OURS = "maxmargin"
GAMMA, C = 0.02, 1.0
COPIED = ("support_", "support_vectors_", "n_support_", "intercept_")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures to FILE")
    parser.add_argument("--rows", type=int, default=10_000, help="number of training digits")
    parser.add_argument("--digits", type=int, default=10_000, help="number of digits to predict")
    parser.add_argument("--competitors", nargs="+", choices=COMPETITORS, default=list(COMPETITORS))
    parser.add_argument(
        "--threads", type=int, nargs="+", default=[0, 1], metavar="N", help="0: the default; else pinned to N cores"
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peers-python", default=sys.executable, metavar="PYTHON", help="Python that has intelex")
    parser.add_argument("--one", nargs=3, metavar=("COMPETITOR", "MODEL", "THREADS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        predict(chosen.one[0], Path(chosen.one[1]), int(chosen.one[2]), chosen.repeats)
    else:
        compare(chosen)


def compare(chosen: Any) -> None:
    """All competitors on both problems, each in a process of its own."""
    from common import append_json, markdown
    from kernel_sets import drawn, mnist, mnist_ten

    lines = []
    for problem, load in {"8 against the rest": mnist, "ten classes": mnist_ten}.items():
        try:
            data = drawn(load(), chosen.rows)
        except FileNotFoundError as missing:
            sys.exit(str(missing))
        with tempfile.TemporaryDirectory() as folder:
            model, reference = Path(folder) / "model", {}
            learn(data, chosen.digits, model)
            for threads in chosen.threads:
                for competitor in dict.fromkeys(["scikit-learn", *chosen.competitors]):
                    row = one(competitor, model, threads, chosen)
                    if "missing" in row:
                        print(f"{competitor} skipped: {row['missing']}")
                        continue
                    labels = np.load(model.with_suffix(".labels.npy"))
                    if competitor == "scikit-learn":  # it is always the first
                        reference, expected = row, labels
                    row |= {"problem": problem, "rows": chosen.rows, "differ": int((labels != expected).sum())}
                    append_json(chosen.json, row)
                    ratio = reference["wall"] / row["wall"]
                    took = [f"{row['cpu']:#.3g}", f"{row['wall']:#.3g}", f"{ratio:.1f}", row["differ"]]
                    lines.append([problem, threads or "default", competitor, f"{row['support']:,}", *took])
    header = [
        "problem",
        "threads",
        "competitor",
        "support vectors",
        "CPU s",
        "wall s",
        "times faster",
        "labels that differ",
    ]
    print(f"{chosen.digits:,} digits predicted, {chosen.rows:,} training digits; compared with scikit-learn\n")
    print(markdown(header, lines))


def learn(data: Any, digits: int, path: Path) -> None:
    """Fit scikit-learn's SVC, and store what the others need."""
    from sklearn.svm import SVC

    model = SVC(C=C, gamma=GAMMA, cache_size=2000).fit(data.X.astype(np.float64), data.y)
    path.write_bytes(pickle.dumps({"model": model, "X": data.X, "y": data.y, "X_test": data.X_test[:digits]}))


def one(competitor: str, model: Path, threads: int, chosen: Any) -> dict[str, Any]:
    python = chosen.peers_python if competitor == "intelex" else sys.executable
    from common import environment

    command = [python, __file__, "--one", competitor, str(model), str(threads), "--repeats", str(chosen.repeats)]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment(threads)).stdout
    return {"competitor": competitor, "threads": threads} | json.loads(answer.splitlines()[-1])


def predict(competitor: str, path: Path, threads: int, repeats: int) -> None:
    """Predict several times in this process; write the best times and the labels."""
    if threads and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    given = pickle.loads(path.read_bytes())
    X = given["X_test"].astype(np.float64 if competitor == "scikit-learn" else np.float32)
    try:
        model = MODELS[competitor](given, threads)
    except ImportError as reason:
        print(json.dumps({"missing": str(reason)}))
        return
    best = {"cpu": np.inf, "wall": np.inf, "support": int(model.support_.size)}
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        labels = model.predict(X)
        best["cpu"] = min(best["cpu"], time.process_time() - cpu)
        best["wall"] = min(best["wall"], time.perf_counter() - wall)
    np.save(path.with_suffix(".labels.npy"), labels)
    print(json.dumps(best))


def scikit_learn(given: Any, threads: int) -> Any:
    return given["model"]


def maxmargin(given: Any, threads: int) -> Any:
    """Our SVC, fitted to a few rows only and then given the other model."""
    from maxmargin import SVC

    y, other = given["y"], given["model"]
    some = np.concatenate([np.flatnonzero(y == label)[:3] for label in other.classes_])
    model = SVC(C=C, gamma=GAMMA, n_jobs=threads or None).fit(given["X"][some], y[some])
    for name in COPIED:
        value = getattr(other, name)
        setattr(model, name, value.astype(np.float32) if name == "support_vectors_" else value)
    model._dual_coef = other.dual_coef_
    return model


def intelex(given: Any, threads: int) -> Any:
    """scikit-learn-intelex, which only predicts with a model of its own."""
    import daal4py
    from sklearnex.svm import SVC

    if threads:
        daal4py.daalinit(threads)
    return SVC(C=C, gamma=GAMMA, cache_size=2000).fit(given["X"], given["y"])


MODELS = {"scikit-learn": scikit_learn, "maxmargin": maxmargin, "intelex": intelex}

if __name__ == "__main__":
    main()
