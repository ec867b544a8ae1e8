"""Test error and certificate against entries read, on the Adult data that comes with the package.

    python benchmarks/adult.py --json adult.json

For each C, scikit-learn's LinearSVC (LIBLINEAR, hinge loss) is fitted to a small tolerance. This gives a test error,
and the slack at which our problem has the same solution. At that slack, our methods may read a part of the entries, all
of them, or more. The table shows the test error and the relative gap of the certificate, which bounds how far the value
is below the best possible one; both are means over the seeds. The certificate reads all of the data, which is not
counted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from common import arguments, markdown, parse_with_threads, write_json
from sklearn.svm import LinearSVC

from maxmargin import SlackSVM, solve
from maxmargin.data import as_matrix, load_adult
from maxmargin.problems import equivalent_slack
from maxmargin.solvers import Holdout, Simba

METHODS = {"default": Simba(), "paper": Simba(method="paper")}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--C", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--passes", type=float, nargs="+", default=[0.1, 0.3, 1, 3])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    chosen = parse_with_threads(parser)
    X, y, X_test, y_test = load_adult()
    matrix, holdout, figures, rows = as_matrix(X), Holdout(as_matrix(X_test), y_test), [], []
    for bias in (True, False):
        for C in chosen.C:
            # A large constant feature, so that the bias is hardly regularised.
            peer = LinearSVC(
                C=C, loss="hinge", fit_intercept=bias, intercept_scaling=10, tol=1e-4, max_iter=100_000, random_state=0
            ).fit(X, y)
            problem, w = SlackSVM(matrix, y, 0.0, bias=bias), np.ravel(peer.coef_)
            problem = problem.with_slack(equivalent_slack(problem, problem.evaluate(w), C))
            peer_error, peer_value = 1 - peer.score(X_test, y_test), problem.evaluate(w).value
            for name in METHODS:
                own = [measure(problem, name, share, chosen.seeds, holdout) for share in chosen.passes]
                figures += [
                    figure | {"bias": bias, "C": C, "peer_error": peer_error, "peer_value": peer_value}
                    for figure in own
                ]
                cells = [f"{np.mean(figure['errors']):.2%}, {np.mean(figure['gaps']):.1%}" for figure in own]
                rows.append(
                    [name, "yes" if bias else "no", f"{C:g}", f"{problem.slack:.4f}", f"{peer_error:.2%}", *cells]
                )
    write_json(chosen.json, figures)
    passes = [f"{share:g} passes" for share in chosen.passes]
    print(f"test error, gap; mean of {len(chosen.seeds)} seeds\n")
    print(markdown(["method", "bias", "C", "slack", "LIBLINEAR", *passes], rows))


def measure(problem: SlackSVM, name: str, passes: float, seeds: list[int], holdout: Holdout) -> dict[str, Any]:
    budget = int(passes * problem.X.n_stored)
    results = [solve(problem, METHODS[name], budget=budget, random_state=seed) for seed in seeds]
    return {
        "method": name,
        "slack": problem.slack,
        "passes": passes,
        "errors": [holdout.error(result.solution, problem.scale) for result in results],
        "gaps": [result.certificate.relative_gap for result in results],
        "values": [result.certificate.primal for result in results],
    }


if __name__ == "__main__":
    main()
