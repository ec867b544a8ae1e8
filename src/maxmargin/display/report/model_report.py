"""A report of a fitted model on labelled samples: what users call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

from maxmargin.data import atomic_write
from maxmargin.display.report.html import element
from maxmargin.display.report.influence import influence
from maxmargin.display.report.measured import measure
from maxmargin.display.report.page import page
from maxmargin.display.report.predictions import errors, margins
from maxmargin.display.report.reproduction import reproduction
from maxmargin.display.report.summary import summary
from maxmargin.display.report.text import shortened
from maxmargin.display.report.training import certificate, convergence, ledger, search
from maxmargin.display.style import percent
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.cross_validated import CrossValidatedClassifier
from maxmargin.estimators.words import count


class ModelReport:
    """A report of a fitted model, as one page of HTML that needs no network and no script.

    It shows the certificate, the errors, the margins, the convergence of the fit, the most influential features or
    support vectors, what was read, and how to fit the model again. In a notebook it displays itself.

    Parameters
    ----------
    html : str
        The page.
    summary : str
        The page in a few words: the estimator and its error.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = SVC().fit(X, y).report(X, y)
    >>> report
    <ModelReport: SVC, error 7.73 % of 569 samples>
    >>> "objective is within" in report.html
    True
    """

    def __init__(self, html: str, summary: str) -> None:
        self.html, self.summary = html, summary

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        feature_names: Iterable[str] | None = None,
        data_name: str = "",
        commands: Sequence[str] = (),
    ) -> ModelReport:
        """Make the report of an estimator on samples, preferably samples that it was not fitted on.

        Parameters
        ----------
        estimator : LinearSVC, SVC, LinearSVCCV or SVCCV
            A fitted estimator.
        X : array, sparse matrix, data frame or store of shape (m, d)
            Samples. They are predicted a block at a time.
        y : array of shape (m,)
            Their labels, all of them classes of the model.
        feature_names : sequence of str or None
            The names of the features. None: the names that the model was fitted with, or else positions.
        data_name : str
            What the page calls the samples.
        commands : sequence of str
            Shell commands that make the page again; the page shows them.

        Returns
        -------
        ModelReport
        """
        model = _model_of(estimator)
        names = _feature_names(model, feature_names)
        measured = measure(model, X, y)
        title, samples = type(estimator).__name__, count(measured.n, "sample")
        columns = [
            [errors(model, measured), margins(model, measured), influence(model, names)],
            [certificate(model), convergence(model), search(estimator), ledger(model), reproduction(model, commands)],
        ]
        where = f"{samples} of {data_name}" if data_name else samples
        html = page(title, summary(model, title, where, measured), columns)
        return cls(html, f"{title}, error {percent(measured.error)} of {samples}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, completely or not at all.

        Parameters
        ----------
        path : str or path
            A file that exists is replaced.
        """
        with atomic_write(path) as file:
            file.write(self.html.encode())

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style changes nothing else in a notebook."""
        style = "width: 100%; height: 45rem; border: 0"
        return element("iframe", srcdoc=self.html, style=style, title="Model report")

    def __repr__(self) -> str:
        return f"<ModelReport: {self.summary}>"


def _model_of(estimator: Any) -> MarginClassifier:
    """The fitted model that a report is about: the estimator, or the best model of a search."""
    if isinstance(estimator, CrossValidatedClassifier):
        model: MarginClassifier = estimator._fitted()
        return model
    if isinstance(estimator, MarginClassifier):
        check_is_fitted(estimator)
        return estimator
    advice = ""
    if hasattr(estimator, "steps"):
        advice = (
            ". Give its last step, with the samples as that step sees them: "
            "ModelReport.from_estimator(pipeline[-1], pipeline[:-1].transform(X), y)"
        )
    elif hasattr(estimator, "best_estimator_"):
        advice = ". Give its best_estimator_"
    kind = estimator if isinstance(estimator, type) else type(estimator)
    package = kind.__module__.partition(".")[0]
    got = f"the class {kind.__name__}" if kind is estimator else f"{kind.__name__} (of the package {package})"
    raise TypeError(f"a report needs a fitted LinearSVC, SVC, LinearSVCCV or SVCCV of maxmargin; got {got}{advice}")


def _feature_names(model: MarginClassifier, given: Iterable[str] | None) -> list[str]:
    """A name for each feature: the given one, that of the training data, or its position."""
    names = getattr(model, "feature_names_in_", None) if given is None else given
    if names is None:
        return [f"feature {k}" for k in range(model.n_features_in_)]
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise TypeError(f"feature_names must be a sequence of names, one for each feature; got {names!r}")
    listed = [shortened(str(name)) for name in names]
    if len(listed) != model.n_features_in_:
        raise ValueError(f"the model has {count(model.n_features_in_, 'feature')}; got {len(listed):,} feature_names")
    return listed
