"""The entrants of each kind of contest, with their titles in the file and the settings at which they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import linear

OURS = "maxmargin"  # the title of maxmargin in every contest, and the name of its package
TOLERANCES = tuple(10.0**-power for power in range(9))  # 1 to 1e-8
EPOCHS = (1, 3, 10, 30, 100, 300, 1000)
SIDES = (3, 5, 10)  # a search tries this many values of C and as many of gamma


@dataclass(frozen=True)
class Entrant:
    """A method of a package: its name in the worker script, and its settings (the ladder) from loose to tight."""

    title: str
    package: str
    worker: str
    ladder: Sequence[float] = TOLERANCES


LINEAR = (
    Entrant(OURS, OURS, "maxmargin-estimator"),
    Entrant("LIBLINEAR dual", "liblinear-official", "liblinear"),
    Entrant("LIBLINEAR TRON", "liblinear-official", "liblinear-tron"),
    Entrant("scikit-learn LinearSVC", "scikit-learn", "LinearSVC"),
    Entrant("scikit-learn LinearSVC, primal", "scikit-learn", "LinearSVC-primal"),
    Entrant("scikit-learn SGDClassifier", "scikit-learn", "SGDClassifier", EPOCHS),
    Entrant("lightning SDCA", "sklearn-contrib-lightning", "lightning", EPOCHS),
    Entrant("snapml", "snapml", "snapml"),
    Entrant("skglm", "skglm", "skglm"),
    Entrant("Cyanure", "cyanure", "cyanure"),
    Entrant("Vowpal Wabbit", "vowpalwabbit", "vowpal-wabbit", EPOCHS),
    Entrant("Vowpal Wabbit --sgd", "vowpalwabbit", "vowpal-wabbit-sgd", EPOCHS),
)
KERNEL = (
    Entrant(OURS, OURS, "maxmargin"),
    Entrant("scikit-learn-intelex, float32", "scikit-learn-intelex", "intelex-float32"),
    Entrant("scikit-learn-intelex, float64", "scikit-learn-intelex", "intelex-float64"),
    Entrant("scikit-learn SVC", "scikit-learn", "scikit-learn"),
    Entrant("LIBSVM", "libsvm-official", "libsvm"),
)
SEARCH = (
    Entrant(OURS, OURS, "maxmargin", SIDES),
    Entrant("scikit-learn GridSearchCV", "scikit-learn", "scikit-learn", SIDES),
    Entrant("the same with scikit-learn-intelex", "scikit-learn-intelex", "intelex", SIDES),
    Entrant("liquidSVM", "liquidSVM", "liquidsvm", SIDES),
)
ALL = (*LINEAR, *KERNEL, *SEARCH)
DISPLAYED = {"the same with scikit-learn-intelex": "scikit-learn-intelex GridSearchCV"}  # instead of the title


def displayed(title: str) -> str:
    """The name of an entrant on the pages; titles are keys of the file and stay as they are."""
    return DISPLAYED.get(title, title)


def linear_entrants(loss: str) -> list[Entrant]:
    """The linear entrants that have this loss."""
    return [entrant for entrant in LINEAR if loss in linear.ENTRANTS[entrant.worker].losses]
