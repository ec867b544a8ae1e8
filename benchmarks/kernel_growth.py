"""Growth of the time of a kernel SVM with the number of rows: MNIST, 8 against the rest, gamma = 0.02.

    python benchmarks/kernel_growth.py --peers-python PEERS/bin/python --json growth.jsonl

For each number of rows there is a race as in kernel.py, whose docstring says how it is run and what is measured. The
exponent is the b of the power law seconds = a n^b that fits best.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from common import exponent, markdown, measured, setting, settings
from kernel import race, race_arguments
from kernel_sets import Data, drawn, mnist


def main() -> None:
    parser = race_arguments(__doc__)
    parser.set_defaults(competitors=["maxmargin", "intelex-float32"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000, 10_000, 20_000, 40_000, 60_000])
    parser.add_argument("--C", type=float, default=1.0)
    chosen = parser.parse_args()
    try:
        data = mnist()
    except FileNotFoundError as missing:
        sys.exit(str(missing))
    for at in settings(chosen):
        compare(data, at)


def compare(data: Data, chosen: Any) -> None:
    """Print a table of all competitors at all sizes, for one number of threads."""
    rows = []
    for n in chosen.sizes:
        rows += race(f"mnist {n}", drawn(data, n), {"gamma": 0.02, "C": chosen.C}, chosen)
        print(f"{n}: done", file=sys.stderr, flush=True)
    measure = measured(chosen.threads)
    print(f"\n{setting(chosen.threads)}; {measure} seconds, C = {chosen.C:g}; support vectors in brackets\n")
    print(table(rows, chosen.sizes, measure))


def table(rows: Sequence[Mapping[str, Any]], sizes: Sequence[int], measure: str) -> str:
    """A table with one line for each competitor."""
    lines = []
    for name in dict.fromkeys(row["competitor"] for row in rows):
        own = {row["n"]: row for row in rows if row["competitor"] == name}
        ended = {n: row[measure] for n, row in own.items() if measure in row}
        cells = [f"{ended[n]:#.3g} ({own[n]['support']:,})" if n in ended else own[n]["stopped"] for n in sizes]
        grows = f"{exponent(list(ended), list(ended.values())):.2f}" if len(ended) > 1 else ""
        lines.append([name, *cells, grows])
    return markdown(["competitor", *(f"{n:,}" for n in sizes), "exponent"], lines)


if __name__ == "__main__":
    main()
