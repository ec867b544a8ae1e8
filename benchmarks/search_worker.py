"""One entrant of a search over C and gamma in a process of its own, run by the Python of any environment that has it.

    python benchmarks/search_worker.py ENTRANT TRAIN.npz TEST.npz

Each line of the standard input asks for a search over values of C and gamma by cross-validation with an rbf kernel, and
for the model with the best values, {"Cs": [...], "gammas": [...], "folds": 5, "seconds": 60}; see `serve` of
linear_worker.py. The answer has the `labels` that the model predicts for the rows of TEST, which is not timed, and the
chosen `C` and `gamma` if the entrant reports them.
"""

from __future__ import annotations

import argparse
import sysconfig
from collections.abc import Callable
from typing import Any

import linear_worker
import numpy as np

Search = Callable[[Any, Any, Any, list[float], list[float], int], dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("entrant", choices=sorted(ENTRANTS))
    parser.add_argument("train", help="a file written by `save` of linear_worker.py")
    parser.add_argument("test", help="such a file with rows to predict")
    chosen = parser.parse_args()

    def prepare() -> Callable[..., Callable[[], dict[str, Any]]]:
        X, y = linear_worker.load(chosen.train)
        test, _ = linear_worker.load(chosen.test)
        search = ENTRANTS[chosen.entrant]()
        return lambda Cs, gammas, folds: lambda: search(X, y, test, Cs, gammas, folds)

    linear_worker.serve(prepare)


def maxmargin() -> Search:
    from maxmargin import SVCCV

    def search(X: Any, y: Any, test: Any, Cs: list[float], gammas: list[float], folds: int) -> dict[str, Any]:
        model = SVCCV(Cs=Cs, gammas=gammas, cv=folds, random_state=0).fit(X, y)
        return {"labels": lambda: model.predict(test), "C": model.C_, "gamma": model.gamma_}

    return search


def grid_search(module: str) -> Callable[[], Search]:
    """scikit-learn's GridSearchCV with the SVC of a module."""

    def prepare() -> Search:
        SVC = getattr(__import__(module, fromlist=["SVC"]), "SVC")  # noqa: B009, the module is known at run time only
        from sklearn.model_selection import GridSearchCV

        def search(X: Any, y: Any, test: Any, Cs: list[float], gammas: list[float], folds: int) -> dict[str, Any]:
            model = GridSearchCV(SVC(), {"C": Cs, "gamma": gammas}, cv=folds).fit(X, y)
            return {"labels": lambda: model.predict(test), **model.best_params_}

        return search

    return prepare


def liquid_svm() -> Search:
    """liquidSVM, whose grid has the same numbers of values, but between bounds that it chooses itself.

    Its model is the vote of the models of all folds, each with values of its own.
    """
    # liquidSVM looks for its compiled part by a configuration variable that Python no longer has.
    sysconfig.get_config_vars().setdefault("SO", sysconfig.get_config_var("EXT_SUFFIX"))
    from liquidSVM import mcSVM

    def search(X: Any, y: Any, test: Any, Cs: list[float], gammas: list[float], folds: int) -> dict[str, Any]:
        model = mcSVM(X, y, folds=folds, gamma_steps=len(gammas), lambda_steps=len(Cs))
        return {"labels": lambda: np.ravel(model.predict(test))}

    return search


ENTRANTS: dict[str, Callable[[], Search]] = {
    "maxmargin": maxmargin,
    "scikit-learn": grid_search("sklearn.svm"),
    "intelex": grid_search("sklearnex.svm"),
    "liquidsvm": liquid_svm,
}

if __name__ == "__main__":
    main()
