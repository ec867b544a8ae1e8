"""Plots of a search for C, slack and gamma."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin.core.types import Vector
from maxmargin.display.style import LEGEND_ABOVE, PANEL_SIZE, ink, number, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.62  # width and height of a cell in inches
# The colours span the scores of the best cells, this share of all. The scores of the other cells are often far worse:
# if they were included, all good cells would have the same colour.
COLOURED_SHARE = 0.6
LIGHT = 0.5  # text is dark on cells of at least this luminance, which is between 0 and 1


class SearchDisplay:
    """Plot of the scores of a search: a map over gamma and C (or slack), or a curve over C (or slack) alone.

    Cells that were left early, after a comparison on a part of the samples, are hatched on the map and hollow on the
    curve. The chosen cell is framed on the map and marked by a line on the curve. Error bars are one standard error of
    the mean over the folds. The colours of the map distinguish the better cells; the worst cells all have the darkest
    colour.

    Parameters
    ----------
    results : dict of arrays
        `cv_results_` of a fitted LinearSVCCV or SVCCV.
    best_index : int
        The position of the chosen cell.
    score_name : str, default="score"
        The name of the score.

    Attributes
    ----------
    figure_ : matplotlib Figure
        The figure.
    ax_ : matplotlib Axes
        The axes.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import LinearSVCCV
    >>> from maxmargin.display import SearchDisplay
    >>> model = LinearSVCCV(Cs=5).fit(*load_iris(return_X_y=True))
    >>> display = SearchDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('C', 'accuracy, mean of 5 folds')
    """

    def __init__(self, results: dict[str, Any], best_index: int, *, score_name: str = "score") -> None:
        self.results, self.best_index, self.score_name = results, best_index, score_name
        self.n_folds = sum(name.startswith("split") for name in results)
        self.means, self.errors = np.asarray(results["mean_test_score"]), np.asarray(results["standard_error"])
        self.name = "C" if "param_C" in results else "slack"

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> SearchDisplay:
        """Plot the search of an estimator.

        Parameters
        ----------
        estimator : LinearSVCCV or SVCCV
            A fitted estimator.
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure.

        Returns
        -------
        SearchDisplay
            The plot.
        """
        check_is_fitted(estimator, "cv_results_")
        scoring = "accuracy" if estimator.scoring is None else estimator.scoring
        name = scoring.replace("_", " ") if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
        display = cls(estimator.cv_results_, estimator.best_index_, score_name=name)
        return display.plot(ax=ax, name=type(estimator).__name__)

    def plot(self, ax: Any = None, *, name: str = "") -> SearchDisplay:
        """Draw the plot.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            The axes to draw on. None makes a new figure with a title.
        name : str, default=""
            The name of the estimator in the title.

        Returns
        -------
        SearchDisplay
            The plot itself.
        """
        gammas = np.unique(self.results.get("param_gamma", [0.0]))
        values = np.unique(self.results[f"param_{self.name}"])
        size = PANEL_SIZE if gammas.size == 1 else (2.6 + CELL * values.size, 1.0 + CELL * gammas.size)
        self.figure_, (self.ax_, *_) = panels(1, ax, size)
        one = gammas.size == 1
        handles = self._draw_curve(self.ax_) if one else self._draw_map(self.ax_, gammas, values)
        self.ax_.set_xlabel(self.name)
        # There is no room for a legend on a map.
        self.ax_.legend(handles=handles, **(LEGEND_ABOVE if ax is None or not one else {"loc": "best"}))
        if ax is None:
            self.figure_.suptitle(": ".join(filter(None, (name, self._best_in_words()))))
        return self

    def _best_in_words(self) -> str:
        parameters = self.results["params"][self.best_index]
        where = ", ".join(f"{name} = {number(value)}" for name, value in parameters.items())
        mean, error = self.means[self.best_index], self.errors[self.best_index]
        return f"{mean:.4f} \N{PLUS-MINUS SIGN} {error:.4f} at {where}"

    def _draw_map(self, axes: Axes, gammas: Vector, values: Vector) -> list[Any]:
        """Draw the map, and return the handles of its legend."""
        from matplotlib import colormaps
        from matplotlib.colors import Normalize
        from matplotlib.patches import Patch, Rectangle

        rows = np.searchsorted(gammas, self.results["param_gamma"])
        columns = np.searchsorted(values, self.results[f"param_{self.name}"])
        table = np.full((gammas.size, values.size), np.nan)
        table[rows, columns] = self.means
        known = np.sort(self.means[np.isfinite(self.means)])
        least, most = known[int((1 - COLOURED_SHARE) * known.size)], known[-1]
        norm, colours = Normalize(least, most if most > least else least + 1e-9), colormaps["cividis"]
        picture = axes.imshow(table, cmap=colours, norm=norm, origin="lower", aspect="auto")
        for k, (row, column) in enumerate(zip(rows, columns, strict=True)):
            corner = column - 0.5, row - 0.5
            if not math.isfinite(self.means[k]):
                continue
            pen = _written_on(colours(norm(self.means[k])))
            axes.text(column, row, f"{self.means[k]:.3f}"[:6], ha="center", va="center", color=pen, fontsize=8)
            if self.results["left_early"][k]:
                axes.add_patch(Rectangle(corner, 1, 1, fill=False, hatch="//", edgecolor=pen, linewidth=0, alpha=0.5))
            if k == self.best_index:
                inner = corner[0] + 0.05, corner[1] + 0.05
                axes.add_patch(Rectangle(inner, 0.9, 0.9, fill=False, edgecolor=pen, linewidth=2.5))
        # The colour of a mark depends on its cell; marks in the legend are on the background.
        handles = [Patch(fill=False, edgecolor=ink(axes), linewidth=2.5, label="chosen")]
        if self.results["left_early"].any():
            handles.append(Patch(fill=False, edgecolor=ink(axes), linewidth=0, hatch="//", label=self._early_label))
        axes.set_xticks(range(values.size), [number(value) for value in values])
        axes.set_yticks(range(gammas.size), [number(gamma) for gamma in gammas])
        axes.set_ylabel("gamma")
        extend = "min" if known[0] < least else "neither"
        self.figure_.colorbar(picture, ax=axes, label=self._score_label, extend=extend)
        return handles

    def _draw_curve(self, axes: Axes) -> list[Any]:
        """Draw the curve, and return the handles of its legend."""
        x = np.asarray(self.results[f"param_{self.name}"])
        order = np.argsort(x)
        early = np.asarray(self.results["left_early"], dtype=bool)
        if x.min() > 0:
            axes.set_xscale("log")
        elif x.max() > 0:
            axes.set_xscale("symlog", linthresh=x[x > 0].min())
        axes.plot(x[order], self.means[order], color="C0", linewidth=1, alpha=0.6)
        for which, fill, label in (
            (~early, "C0", "mean and standard error"),
            (early, "none", self._early_label),
        ):
            shown = which & np.isfinite(self.means)
            if shown.any():
                points = x[shown], self.means[shown], self.errors[shown]
                axes.errorbar(*points, fmt="o", color="C0", markerfacecolor=fill, capsize=3, label=label)
        chosen = x[self.best_index]
        axes.axvline(
            chosen, color=ink(axes), linestyle="--", linewidth=1, label=f"chosen: {self.name} = {number(chosen)}"
        )
        axes.grid(alpha=0.3)
        axes.set_ylabel(self._score_label)
        return list(axes.get_legend_handles_labels()[0])

    @property
    def _early_label(self) -> str:
        early = np.asarray(self.results["left_early"], dtype=bool)
        return f"left early, after {self.results['n_samples'][early].max(initial=0):,} samples"

    @property
    def _score_label(self) -> str:
        return f"{self.score_name}, mean of {self.n_folds} folds"


def _written_on(colour: tuple[float, float, float, float]) -> str:
    """Return a grey that is readable on a colour."""
    luminance = float(np.dot(colour[:3], (0.299, 0.587, 0.114)))
    return "0.1" if luminance >= LIGHT else "0.95"
