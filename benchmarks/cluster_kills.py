"""Fits on a Dask cluster whose workers are killed: whether the bits are the same, and how much time is lost.

    python benchmarks/cluster_kills.py --json cluster_kills.json
    python benchmarks/cluster_kills.py --sets covtype --kills 3
    python benchmarks/cluster_kills.py --quick

Sets: `higgs` and `covtype` use LinearSVC with the squared hinge loss, C = 1, to a relative gap of 1e-4, as in
cluster_linear.py; `mnist rbf` and `covtype rbf` use SVC as in cluster_kernel.py. A cluster of two workers of one
thread, processes that talk over TCP, holds the data as futures that Dask can compute again: HIGGS-like samples are
drawn again, others are read from their files again. The first two fits are undisturbed. During each further fit, one
worker is killed (SIGKILL) after a random share of the time of the faster undisturbed fit; its nanny starts another
worker. "lost s" is the time of the fit minus the time of the faster undisturbed fit. A kill that comes after the end of
its fit does not count and is repeated.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import cluster_kernel
import clusters
import records
from clusters import Load
from common import arguments, markdown, write_json
from kernel_sets import CASES

LINEAR, KERNEL = ("higgs", "covtype"), ("mnist rbf", "covtype rbf")
QUICK_ROWS = 6000
MOST_TRIES = 3  # maximum number of fits for each kill, because a kill may come too late


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--sets", nargs="+", choices=LINEAR + KERNEL, default=[*LINEAR, *KERNEL])
    parser.add_argument("--kills", type=int, default=10, help="number of kills for each set")
    parser.add_argument("--rows", type=int, help="maximum number of rows of each set")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="folder for the data, default: a temporary folder")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS:,} rows and two kills each")
    records.add_options(parser)
    clusters.add_alone(parser)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(killed_fits(**chosen.one)))
        return
    if chosen.quick:
        chosen.rows, chosen.kills = QUICK_ROWS, 2
    print(" ".join(["python", *sys.argv]), "\n")
    figures = []
    with tempfile.TemporaryDirectory() as temporary:
        for name in chosen.sets:
            if chosen.kept:
                figures += records.kept(chosen, set=name)
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            folder = str((chosen.folder or Path(temporary)).resolve())
            request = {"name": name, "kills": chosen.kills, "rows": chosen.rows, "seed": chosen.seed, "folder": folder}
            figures.append({"set": name} | clusters.alone(__file__, request))
            write_json(chosen.json, figures)
    records.keep(chosen, report(figures))


def killed_fits(name: str, kills: int, rows: int | None, seed: int, folder: str) -> dict[str, Any]:
    """Run the fits of one set in this process."""
    from maxmargin.dask import SVC, LinearSVC

    if name in LINEAR:
        loads = clusters.linear_loads(name, rows or 10_000_000, Path(folder))
        model: Any = LinearSVC(tol=1e-4, random_state=0)
    else:
        short = name.split()[0]
        loads = clusters.saved_loads(cluster_kernel.saved_rows(short, rows, Path(folder)))
        model = SVC(gamma=CASES[short].gamma, C=CASES[short].C, random_state=0, n_jobs=1)
    with clusters.cluster_of(2) as client:
        return Kills(client, model.set_params(client=client), loads, random.Random(seed)).run(kills)


@dataclass
class Kills:
    """Fits of one model; a worker is killed during each of them."""

    client: Any
    model: Any
    loads: Sequence[Load]
    random: random.Random

    def run(self, kills: int) -> dict[str, Any]:
        pairs = clusters.on_workers(self.client, self.loads)
        (bits, first), (again, second) = (self.fit(pairs) for _ in range(2))
        assert bits == again, "two undisturbed fits have different bits"
        undisturbed = min(first, second)
        moments, walls, same = [], [], 0
        for _ in range(MOST_TRIES * kills):
            if len(walls) == kills:
                break
            moment = self.random.random() * undisturbed
            bits_after, wall = self.fit(pairs, kill_after=moment)
            if wall > moment:
                moments.append(moment)
                walls.append(wall)
                same += bits_after == bits
            self.wait_for_all()
        return {"undisturbed": undisturbed, "moments": moments, "walls": walls, "same": same}

    def fit(self, pairs: Any, kill_after: float | None = None) -> tuple[str, float]:
        """The bits of the model and the seconds of its fit; `kill_after` is the second at which a worker is killed."""
        timer = None if kill_after is None else self._timer(kill_after)
        start = time.perf_counter()
        if timer is not None:
            timer.start()
        model = self.model.fit(pairs, None)
        wall = time.perf_counter() - start
        if timer is not None:
            timer.cancel()
            timer.join()
        coefficients = model.coef_ if hasattr(model, "coef_") else model.dual_coef_
        return clusters.bits(coefficients, model.intercept_), wall

    def wait_for_all(self) -> None:
        """Wait until all workers are back and their nannies know it; before that, a nanny starts no other worker."""
        from distributed.core import Status

        nannies = list(self.client.cluster.workers.values())
        self.client.wait_for_workers(len(nannies), timeout=60)
        while any(nanny.process is None or nanny.process.status != Status.running for nanny in nannies):
            time.sleep(0.1)

    def _timer(self, seconds: float) -> threading.Timer:
        victim = self.random.choice(clusters.worker_pids(self.client))
        kill: Callable[..., None] = os.kill
        return threading.Timer(seconds, kill, (victim, signal.SIGKILL))


def report(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print a table with one line for each set, and return its rows."""
    header = ["set", "undisturbed s", "kills", "same bits", "lost s, median", "lost s, most", "median share of the fit"]
    rows = []
    for each in figures:
        lost = [wall - each["undisturbed"] for wall in each["walls"]]
        share = f"{median(lost) / each['undisturbed']:.2f}"
        seconds = (f"{each['undisturbed']:#.3g}", len(lost), each["same"], f"{median(lost):#.3g}", f"{max(lost):#.3g}")
        rows.append([each["set"], *seconds, share])
    print(markdown(header, rows), flush=True)
    return [dict(zip(header, row, strict=True)) for row in rows]


if __name__ == "__main__":
    main()
