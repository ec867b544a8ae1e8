r"""The regularisation path: the largest margin as a function of the mean slack."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import train_test_split

from maxmargin.core.optional import import_optional
from maxmargin.core.types import Indices, Vector
from maxmargin.engine.interrupt import Interrupt, listen_for_interrupt
from maxmargin.engine.result import OUT_OF_TIME
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.kernel import SVC
from maxmargin.estimators.limits import Deadline
from maxmargin.estimators.linear import LinearSVC
from maxmargin.estimators.validation import distinct_numbers
from maxmargin.estimators.warm_fits import Fitted, WarmFits
from maxmargin.problems import Certificate
from maxmargin.solvers import NoModelYet

COARSE = 10.0  # ratio of successive values of C, before points are added where the curve bends
STRONGEST = 1e3  # maximum of C times the largest squared norm if the path chooses C: fits beyond it take long
SAME = 1e-3  # the path ends when a step of C changes the margin by less than this share


@dataclass(frozen=True)
class PathPoint:
    """One model of a path.

    Attributes
    ----------
    C, slack, margin : float
        The attributes `C_`, `slack_` and `margin_` of the model. The slack is in units of the largest norm, the margin
        in units of the data.
    train_error, holdout_error : float
        The share of misclassified samples among the training samples and among the held-out samples (NaN if there are
        none).
    n_support : int
        The number of samples with a nonzero dual variable.
    certificate : Certificate
        The certificate of the model.
    """

    C: float
    slack: float
    margin: float
    train_error: float
    holdout_error: float
    n_support: int
    certificate: Certificate


class Path(Sequence[PathPoint]):
    """The models of :func:`slack_path`, in the order of rising C, and so of falling slack and margin.

    Parameters
    ----------
    points : sequence of PathPoint
        The points of the path.
    fitted : sequence of Fitted
        The fit of each point, from which its model is made.
    stopped : str, default=""
        What ended the path early: "interrupted" or "max_time"; empty if the path is complete.
    """

    def __init__(self, points: Sequence[PathPoint], fitted: Sequence[Fitted[Any]], stopped: str = "") -> None:
        self._points, self._fitted, self.stopped = list(points), list(fitted), stopped

    def model(self, index: int) -> Any:
        """Return the fitted LinearSVC or SVC of a point.

        Parameters
        ----------
        index : int
            The position of the point.

        Returns
        -------
        LinearSVC or SVC
            The fitted model.
        """
        return self._fitted[index].model()

    def column(self, name: str) -> Vector:
        """Return one field of all points as an array.

        Parameters
        ----------
        name : str
            The name of a field of :class:`PathPoint`, or "gap" for the relative gap of the certificate.

        Returns
        -------
        array of shape (n_points,)
            The values.
        """
        if name == "gap":
            return np.array([point.certificate.relative_gap for point in self._points])
        return np.array([getattr(point, name) for point in self._points])

    def to_pandas(self) -> Any:
        """Return the points as a pandas DataFrame; its column "gap" holds the relative gap of each certificate."""
        pandas = import_optional("pandas", "a table")

        names = [field.name for field in fields(PathPoint) if field.name != "certificate"]
        return pandas.DataFrame({name: self.column(name) for name in [*names, "gap"]})

    def plot(self, **options: Any) -> Any:
        """Plot margin and errors; see :class:`maxmargin.display.PathDisplay` for the options."""
        from maxmargin.display import PathDisplay

        return PathDisplay.from_path(self, **options)

    def __len__(self) -> int:
        return len(self._points)

    def __iter__(self) -> Iterator[PathPoint]:
        return iter(self._points)

    @overload
    def __getitem__(self, index: int) -> PathPoint: ...
    @overload
    def __getitem__(self, index: slice) -> Path: ...
    def __getitem__(self, index: int | slice) -> PathPoint | Path:
        if isinstance(index, slice):
            return Path(self._points[index], self._fitted[index], self.stopped)
        return self._points[index]

    def __repr__(self) -> str:
        early = f", ended early by {self.stopped}" if self.stopped else ""
        if not self._points:
            return f"Path of no points{early}"
        first, last = self._points[0], self._points[-1]
        return f"Path of {len(self)} points from slack {first.slack:.3g} to {last.slack:.3g}{early}"


def slack_path(
    X: Any,
    y: Any,
    *,
    slacks: ArrayLike | None = None,
    Cs: ArrayLike | None = None,
    n_points: int = 20,
    kernel: Any = "linear",
    validation_fraction: float | None = 0.1,
    sample_weight: ArrayLike | None = None,
    max_time: float | None = None,
    random_state: Any = None,
    **parameters: Any,
) -> Path:
    r"""Compute the regularisation path: the largest margin for each mean slack, and the errors of the models.

    Each point is the optimum of the slack form for some slack. By Lemma 2.1 of Hazan, Koren and Srebro (2011), it is
    also the optimum of the form with C and the hinge for some C. Each fit starts from the dual variables of the
    previous fit, and all fits share the rows of one kernel matrix.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The samples.
    y : array of shape (n,)
        The labels, of two classes.
    slacks, Cs : array or None, default=None
        The slacks or the values of C of the points; give at most one of the two. If you give neither, C rises from a
        value at which all samples are inside the margin to one at which the model no longer changes, and points are
        added where margin and slack bend.
    n_points : int, default=20
        The maximum number of points if neither `slacks` nor `Cs` is given.
    kernel : str or callable, default="linear"
        "linear" fits :class:`LinearSVC` models; any other kernel fits :class:`SVC` models.
    validation_fraction : float or None, default=0.1
        The share of the samples to hold out for measuring the error. None holds out no samples.
    sample_weight : array of shape (n,) or None, default=None
        Weights of the samples.
    max_time : float or None, default=None
        The maximum time in seconds. When it is over, the points found so far are returned; Ctrl-C does the same.
    random_state : int, RandomState or None, default=None
        The source of randomness.
    **parameters
        Further parameters of LinearSVC or SVC, such as `gamma`, `class_weight`, `tol`, `cache_size` or `n_jobs`.

    Returns
    -------
    Path
        The points and their models.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import slack_path
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> path = slack_path(X, y, kernel="rbf", n_points=8, random_state=0)
    >>> bool((path.column("slack")[1:] <= path.column("slack")[:-1]).all())
    True
    >>> path.model(-1).score(X, y) > 0.9
    True
    """
    if slacks is not None and Cs is not None:
        raise ValueError("both slacks and Cs were given: give one of them, as each determines the other")
    values = np.zeros(0)
    if slacks is not None:
        values = distinct_numbers("slacks", slacks, positive=False)[::-1]
    elif Cs is not None:
        values = distinct_numbers("Cs", Cs, positive=True)
    if n_points != int(n_points) or n_points < 2:
        raise ValueError(f"n_points must be a whole number of at least 2; got {n_points!r}")
    if max_time is not None and not max_time > 0:
        raise ValueError(f"max_time must be a positive number of seconds, or None; got {max_time!r}")
    name = "slack" if slacks is not None else "C"
    estimator = _estimator(kernel, {**parameters, "random_state": random_state})
    if name == "slack":
        estimator.set_params(slack=float(values[0]))
    count = np.unique(np.asarray(y)).size
    if count != 2:
        raise ValueError(
            f"a path needs labels of two classes; got {count} class{'es' if count != 1 else ''}. Give labels of two "
            "classes, such as y == a, or choose C for several classes with LinearSVCCV or SVCCV"
        )
    deadline = Deadline(max_time)
    with listen_for_interrupt() as interrupt:
        fits = WarmFits(estimator, X, y, sample_weight)
        climb = _Climb(fits, X, np.asarray(y), validation_fraction, deadline, interrupt)
        if values.size:
            for value in values:
                if not climb.add({name: float(value)}):
                    break
        else:
            climb.choose(n_points)
        interrupt.answer()
    return climb.path()


def _estimator(kernel: Any, parameters: Mapping[str, Any]) -> MarginClassifier:
    for name in ("C", "slack", "early_stopping", "budget", "warm_start"):
        if name in parameters:
            raise ValueError(f"{name} is not a parameter of slack_path; got {name}={parameters[name]!r}")
    if parameters.get("loss", "hinge") != "hinge":
        raise ValueError(f"slack_path supports loss='hinge' only; got loss={parameters['loss']!r}")
    parameters = {name: value for name, value in parameters.items() if name != "loss"}
    if isinstance(kernel, str) and kernel == "linear":
        return LinearSVC(loss="hinge", keep_dual=True, **parameters)
    return SVC(kernel=kernel, **parameters)


class _Climb:
    """The points of a path as they are found, in any order of C."""

    def __init__(
        self,
        fits: WarmFits[MarginClassifier],
        X: Any,
        y: Any,
        validation_fraction: float | None,
        deadline: Deadline,
        interrupt: Interrupt,
    ) -> None:
        self.X, self.deadline, self.interrupt, self.stopped = X, deadline, interrupt, ""
        self.all_inside = False  # whether all samples lie inside the margin of the last point
        self.second = y == fits.template.classes_[1]
        self.learned, self.held_out = self._split(self.second, validation_fraction, fits)
        self.fits = fits.among(self.learned) if self.held_out.size else fits
        self.found: list[tuple[PathPoint, Fitted[Any]]] = []

    @staticmethod
    def _split(second: Any, fraction: float | None, fits: WarmFits[Any]) -> tuple[Indices, Indices]:
        every = np.arange(second.size)
        if fraction is None:
            return every, every[:0]
        try:
            learned, held_out = train_test_split(every, test_size=fraction, stratify=second, random_state=fits.seeds)
        except ValueError as error:
            raise ValueError(
                f"validation_fraction={fraction!r} of {second.size} samples leaves no samples of each class on both "
                f"sides: {error}; give more samples, or validation_fraction=None"
            ) from error
        return learned, held_out

    def add(self, parameters: dict[str, float]) -> bool:
        """Add the point with this C or slack; return False if there is no time for another point."""
        try:
            fitted = self.fits.fit(self.deadline, **parameters)
        except NoModelYet:
            if not self.found:
                raise
            self.stopped = "interrupted"
            return False
        models = fitted.models
        decisions = fitted.decisions(self.X)
        wrong = (decisions > 0) != self.second
        self.all_inside = bool((np.where(self.second, decisions, -decisions)[self.learned] < 1).all())
        dual = models.coefficients if models.alpha is None else models.alpha
        self.found.append(
            (
                PathPoint(
                    float(models.C[0]),
                    float(models.slack[0]),
                    float(models.margin[0]),
                    float(np.mean(wrong[self.learned])),
                    float(np.mean(wrong[self.held_out])) if self.held_out.size else math.nan,
                    int(np.count_nonzero(dual)),
                    models.certificates[0],
                ),
                fitted,
            )
        )
        if models.stopped[0] in OUT_OF_TIME:
            self.stopped = models.stopped[0]
        elif self.interrupt.ever_asked or self.deadline.passed:  # the fit ended before it checked for them
            self.stopped = "interrupted" if self.interrupt.ever_asked else "max_time"
        return not self.stopped

    def choose(self, n_points: int) -> None:
        """Raise C in large steps from the smallest to the last useful value; then halve steps where the curve bends."""
        fit = self.fits.fit_
        sq_norm = fit.scale**2
        C = 1 / (float(fit.weights.sum()) * sq_norm)
        while len(self.found) < n_points and self.add({"C": C}) and not self._at_end(C * sq_norm):
            if self.all_inside:  # the previous points differ from this one only in the length of w
                del self.found[:-1]
            C *= COARSE
        while len(self.found) < n_points and not self.stopped:
            self._refine(n_points - len(self.found))

    def _at_end(self, strength: float) -> bool:
        """Whether the path is at its end: no slack is left, the margin no longer changes, or C is too large."""
        last = self.found[-1][0]
        if last.slack == 0 or strength >= STRONGEST:
            return True
        return len(self.found) > 1 and abs(last.margin / self.found[-2][0].margin - 1) < SAME

    def _refine(self, most: int) -> None:
        """Halve the steps of C over which the curve bends most, at most half of the steps, starting near the last C."""
        points = sorted((point for point, _ in self.found), key=lambda point: point.C)
        bends = _bends(points)
        chosen = np.sort(np.argsort(-bends, kind="stable")[: max(1, min(most, bends.size // 2))])
        last = self.found[-1][0].C
        middles = [math.sqrt(points[k].C * points[k + 1].C) for k in chosen]
        # The next fit starts from the last solution, so begin at the end that is nearer to it.
        if abs(math.log(middles[-1] / last)) < abs(math.log(middles[0] / last)):
            middles.reverse()
        for C in middles:
            if not self.add({"C": C}):
                return

    def path(self) -> Path:
        """Return the path, in the order of rising C."""
        self.found.sort(key=lambda item: item[0].C)
        return Path([point for point, _ in self.found], [fitted for _, fitted in self.found], self.stopped)


def _bends(points: Sequence[PathPoint]) -> Vector:
    """Measure how much the curve turns at the ends of each step, times the length of the step.

    The coordinates of the curve are |w| = 1 / margin, the mean hinge loss slack / margin, and the training error, each
    as a share of its range.
    """
    table = np.array([(1 / point.margin, point.slack / point.margin, point.train_error) for point in points])
    spread = np.ptp(table, axis=0)
    steps = np.diff(table / np.where(spread > 0, spread, 1.0), axis=0)
    length = np.linalg.norm(steps, axis=1)
    directions = steps / np.maximum(length, np.finfo(float).tiny)[:, None]
    turns = np.linalg.norm(np.diff(directions, axis=0), axis=1)
    at_ends = np.concatenate([[0.0], turns]) + np.concatenate([turns, [0.0]])
    return np.asarray(length * (1.0 + at_ends))
