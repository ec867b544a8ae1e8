"""The ideas of the papers in pictures, one for each algorithm; `docs/draw.py` writes them."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

INK = "#808080"  # readable on the light and on the dark background of a page
ROW, COLUMN = "#1f77b4", "#ff7f0e"


def grid(axes: Axes, x: float, y: float, rows: int, columns: int) -> None:
    """An empty matrix with its lower left corner at (x, y)."""
    for i in range(rows + 1):
        axes.plot([x, x + columns], [y + i] * 2, color=INK, linewidth=0.4)
    for j in range(columns + 1):
        axes.plot([x + j] * 2, [y, y + rows], color=INK, linewidth=0.4)


def fill(axes: Axes, x: float, y: float, width: float, height: float, colour: str, alpha: float = 0.5) -> None:
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, alpha=alpha, linewidth=0))


def simba() -> Figure:
    """A round of SIMBA reads one row and one column of the matrix."""
    figure, axes = plt.subplots(figsize=(7.6, 3.2), layout="constrained")
    n, d, row, column = 9, 14, 3, 9
    rng = np.random.default_rng(1)
    p, w = rng.random(n) * 0.5, rng.random(d) * 0.5
    p[row], w[column] = 1.0, 1.0
    grid(axes, 0, 0, n, d)
    fill(axes, 0, row, d, 1, ROW)
    fill(axes, column, 0, 1, n, COLUMN)
    for i in range(n):
        fill(axes, -0.3 - 1.6 * p[i], i + 0.2, 1.6 * p[i], 0.6, ROW if i == row else INK)
    for j in range(d):
        fill(axes, j + 0.2, n + 0.3, 0.6, 1.6 * w[j], COLUMN if j == column else INK)
    axes.text(-1.2, -0.2, "p", ha="center", va="top")
    axes.text(-0.6, n + 1.4, r"$w_j^2$", ha="right")
    axes.text(d + 0.6, row + 0.5, "a row, drawn by p: one step of w\nalong this sample", va="center", color=ROW)
    text = (
        r"a column, drawn by $w_j^2$: an estimate" + "\nof all responses, which moves p\nto the samples with small ones"
    )
    axes.text(d + 0.6, n - 0.2, text, va="top", color=COLUMN)
    axes.set(xlim=(-2.4, d + 13), ylim=(-1.2, n + 2.2), aspect="equal")
    axes.axis("off")
    return figure


def stochastic_batch_perceptron() -> Figure:
    """The slack fills the basin of the responses up to the water level."""
    figure, (upper, lower) = plt.subplots(
        2, 1, figsize=(7.6, 3.4), layout="constrained", height_ratios=(3, 1), sharex=True
    )
    responses = np.sort(np.concatenate([np.linspace(-0.6, 0.25, 9), np.linspace(0.28, 1.1, 17)]))
    at = np.arange(responses.size)
    level = 0.3
    wet = responses < level
    upper.bar(at, responses + 0.8, bottom=-0.8, width=0.9, color=INK, alpha=0.5, label="responses, sorted")
    upper.bar(at[wet], (level - responses)[wet], bottom=responses[wet], width=0.9, color=ROW, alpha=0.5, label="slack")
    upper.axhline(level, color=ROW, linewidth=1)
    upper.text(at[-1] + 0.6, level + 0.04, r"water level $\gamma$", color=ROW, ha="right")
    upper.set(yticks=[], ylabel=r"$c_i = y_i \langle w, x_i \rangle$")
    upper.legend(loc="upper left", frameon=False)
    lower.bar(at, wet / wet.sum(), width=0.9, color=ROW, alpha=0.5)
    lower.set(xticks=[], yticks=[], xlabel="samples", ylabel=r"$p^*_i$")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def pegasos() -> Figure:
    """Steps of Pegasos on one sample each, over the contours of the objective."""
    rng = np.random.default_rng(3)
    y = np.where(np.arange(60) % 2, 1.0, -1.0)
    X = rng.normal(size=(60, 2)) + 0.9 * y[:, None]
    lambda_, rounds = 0.1, 120
    radius = 1 / np.sqrt(lambda_)
    w, path = np.zeros(2), [np.zeros(2)]
    for t in range(1, rounds + 1):
        i = rng.integers(y.size)
        step = y[i] * X[i] / (lambda_ * t) if y[i] * (w @ X[i]) < 1 else 0.0
        w = (1 - 1 / t) * w + step
        w = w * min(1.0, radius / np.linalg.norm(w))
        path.append(w)
    steps = np.array(path)
    figure, axes = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
    a, b = np.meshgrid(np.linspace(-2.2, 4, 160), np.linspace(-2.2, 4, 160))
    margins = y[:, None, None] * (X[:, 0, None, None] * a + X[:, 1, None, None] * b)
    objective = lambda_ / 2 * (a**2 + b**2) + np.maximum(0, 1 - margins).mean(axis=0)
    axes.contour(
        a, b, objective, levels=np.geomspace(objective.min() * 1.01, objective.max(), 14), colors=INK, linewidths=0.5
    )
    axes.add_patch(Circle((0, 0), radius, fill=False, edgecolor=INK, linestyle="--"))
    axes.text(-2.1, -2.1, r"ball of radius $1/\sqrt{\lambda}$", va="bottom")
    axes.plot(*steps.T, color=ROW, linewidth=0.7, marker=".", markersize=3, label=r"$w_t$")
    weights = np.arange(len(steps)) ** 3.0
    mean = weights @ steps / weights.sum()
    axes.plot(*mean, "o", color=COLUMN, markersize=7, label="their average, later steps weighing more")
    axes.set(xlim=(-2.2, 4), ylim=(-2.2, 4), xticks=[], yticks=[], aspect="equal")
    axes.legend(loc="upper right", frameon=False, fontsize=8)
    return figure


def hybrid() -> Figure:
    """Where a sample need not be read: a ball in which its margin is certain to be at least 1."""
    figure, axes = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
    fill(axes, -7.5, -3, 4.5, 6, COLUMN, 0.25)
    axes.plot([-3, -3], [-3, 3], color=COLUMN)
    axes.text(-7.3, 2.6, r"$y_i \langle w, x_i \rangle < 1$: has a loss", color=COLUMN, va="top")
    axes.add_patch(Circle((0, 0), 3, facecolor=ROW, alpha=0.2, linewidth=0))
    axes.text(0.1, 2.4, "certain to have none:\nnot read", color=ROW, ha="center", va="center", fontsize=9)
    path = np.array([[0, 0], [0.8, 0.6], [1.6, 0.1], [1.2, -0.9], [2.2, -1.4], [3.3, -1.9]])
    axes.plot(*path.T, color=INK, marker="o", markersize=4)
    axes.text(-0.1, 0.15, r"$w_s$, where it was read", ha="right", va="bottom", fontsize=9)
    axes.text(3.45, -1.9, "outside: it is read again", va="center")
    axes.annotate("", (-3, 0), (0, 0), arrowprops={"arrowstyle": "<->", "color": ROW, "shrinkA": 0, "shrinkB": 0})
    axes.text(
        -1.5, -0.15, r"$(y_i \langle w_s, x_i \rangle - 1) \,/\, \|x_i\|$", color=ROW, ha="center", va="top", fontsize=9
    )
    axes.set(xlim=(-7.5, 8), ylim=(-3.1, 3.1), aspect="equal")
    axes.axis("off")
    return figure


def primal_dual() -> Figure:
    """The largest value of the smallest of several concave functions."""
    figure, axes = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
    x = np.linspace(-1, 1, 400)
    functions = np.array([0.9 + 0.9 * x, 0.5 + 0.35 * x, 0.75 - 0.55 * x, 1.0 - 1.1 * x**2, 1.1 - 0.9 * x])
    smallest = functions.min(axis=0)
    best = smallest.argmax()
    active = np.argsort(functions[:, best])[:2]
    for k, values in enumerate(functions):
        axes.plot(x, values, color=ROW if k in active else INK, linewidth=2 if k in active else 0.8, alpha=0.8)
    axes.plot(x, smallest, color=COLUMN, linewidth=4, alpha=0.5)
    axes.plot(x[best], smallest[best], "o", color=COLUMN, markersize=8)
    axes.text(x[best], smallest[best] - 0.12, r"$\sigma$", color=COLUMN, ha="center", va="top", fontsize=12)
    axes.text(-0.98, 1.5, "thick: the functions on which the weights end", color=ROW)
    axes.text(-0.3, 0.22, r"$\min_i \, c_i(x)$", color=COLUMN)
    axes.set(xlim=(-1, 1), ylim=(-0.1, 1.7), xticks=[], yticks=[], xlabel="x")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def semidefinite() -> Figure:
    """A round reads one matrix and an entry of every matrix."""
    figure, axes = plt.subplots(figsize=(7.6, 2.2), layout="constrained")
    n, m, drawn, entry = 5, 6, 2, (3, 1)
    for k in range(m):
        left = k * (n + 1.4)
        grid(axes, left, 0, n, n)
        if k == drawn:
            fill(axes, left, 0, n, n, ROW, 0.35)
        fill(axes, left + entry[0], entry[1], 1, 1, COLUMN, 0.8)
        axes.text(left + n / 2, n + 0.4, f"$A_{k + 1}$", ha="center")
    axes.text(0, -0.6, "one matrix, drawn by p: a step of X along it", color=ROW, va="top")
    axes.text(
        0,
        -1.7,
        "the same entry of every matrix, drawn by X: estimates of all products with X, which move p",
        color=COLUMN,
        va="top",
    )
    axes.set(xlim=(-0.5, m * (n + 1.4)), ylim=(-2.8, n + 1.3), aspect="equal")
    axes.axis("off")
    return figure


IDEAS: dict[str, Callable[[], Figure]] = {
    "idea_simba": simba,
    "idea_sbp": stochastic_batch_perceptron,
    "idea_pegasos": pegasos,
    "idea_hybrid": hybrid,
    "idea_primal_dual": primal_dual,
    "idea_sdp": semidefinite,
}
