"""Quality of a model of several classes whose fit is stopped early, by max_time or by Ctrl-C.

    python benchmarks/stopped_early.py --sets mnist covtype --seconds 1 5 20 50

The table shows, for each set and time, the seconds that `fit` took, how many binary problems were solved on all of
their samples, and the test error, with default parameters and the default environment. "interrupted" sends the signal
of Ctrl-C after that time.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import Any

import numpy as np
from common import arguments, covtype_rows, markdown, mnist_digits, write_json

from maxmargin import SVC, LinearSVC


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seconds", nargs="+", type=float, default=[1.0, 5.0, 20.0, 50.0])
    chosen = parser.parse_args()
    rows = []
    for name in chosen.sets:
        try:
            X, y, X_test, y_test = SETS[name]()
        except FileNotFoundError as missing:
            print(f"{name} skipped: {missing}")
            continue
        for kind in chosen.models:
            for seconds in chosen.seconds:
                for how in ("max_time", "interrupted"):
                    model = MODELS[kind]()
                    try:
                        took = stopped(model, X, y, seconds, how)
                    except KeyboardInterrupt:
                        rows.append([name, kind, how, f"{seconds:g}", "", "no model yet", ""])
                        print(*rows[-1], flush=True)
                        continue
                    solved = sum(bool(certificate) or why == "tol" for certificate, why in proofs(model))
                    error = 100 * (1 - model.score(X_test, y_test))
                    of = len(model.certificate_)
                    rows.append([name, kind, how, f"{seconds:g}", f"{took:.2f}", f"{solved} of {of}", f"{error:.2f}"])
                    print(*rows[-1], flush=True)
    header = ["set", "model", "stopped by", "after, s", "fit took, s", "certified", "test error, %"]
    print(markdown(header, rows))
    write_json(chosen.json, [dict(zip(header, row, strict=True)) for row in rows])


def stopped(model: Any, X: Any, y: Any, seconds: float, how: str) -> float:
    """Fit a model, stop it after `seconds` seconds, and return how long it really took."""
    ctrl_c = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
    if how == "max_time":
        model.set_params(max_time=seconds)
    else:
        ctrl_c.start()
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    took = time.perf_counter() - started
    ctrl_c.cancel()  # no signal after a fit that ended before
    return took


def proofs(model: Any) -> Any:
    """Certificate and stop rule of each binary problem."""
    return zip(model.certificate_, model.stopped_, strict=True)


def mnist() -> tuple[Any, ...]:
    return *mnist_digits("train"), *mnist_digits("t10k")


def covtype() -> tuple[Any, ...]:
    """All seven classes, columns in [0, 1], a tenth of the rows to test on."""
    X, y = covtype_rows(scaled=True, classes=True)
    train, test = np.split(np.random.default_rng(0).permutation(y.size), [9 * y.size // 10])
    return X[train], y[train], X[test], y[test]


SETS = {"mnist": mnist, "covtype": covtype}
MODELS = {
    "SVC": lambda: SVC(C=5.0, random_state=0),
    "LinearSVC": lambda: LinearSVC(C=0.1, random_state=0),
}

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main()
