"""Draws the pictures of the pages into docs/pictures, as SVG: `.venv/bin/python docs/draw.py`."""

from pathlib import Path
from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
from ideas import IDEAS, INK
from matplotlib.patches import FancyBboxPatch
from sklearn.datasets import load_iris, make_moons

from maxmargin import SVC, SVCCV, LinearSVCCV, slack_path
from maxmargin.display import MarginDisplay, PathDisplay, RegionsDisplay, SearchDisplay

FOLDER = Path(__file__).parent / "pictures"
STYLE = {
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "maxmargin",  # the same names of paths in each run
}


def pictures() -> dict[str, object]:
    """All displays, by the name of the file."""
    X, y = make_moons(400, noise=0.3, random_state=0)
    flowers, kinds = load_iris(return_X_y=True)
    many, sides = make_moons(7000, noise=0.3, random_state=0)
    model = SVC(C=1.0).fit(X, y)
    search = SVCCV(Cs=[0.01, 0.1, 1.0, 10.0, 100.0, 1000.0], random_state=0).fit(many, sides)
    return {
        "path": PathDisplay.from_path(slack_path(X, y, kernel="rbf", random_state=0)),
        "search": SearchDisplay.from_estimator(search),
        "curve": SearchDisplay.from_estimator(LinearSVCCV(random_state=0).fit(flowers, kinds)),
        "margins": MarginDisplay.from_estimator(model, X, y),
        "regions": RegionsDisplay.from_estimator(SVC().fit(X[:200], y[:200]), X[:200], y[:200], grid_resolution=80),
        "three_regions": RegionsDisplay.from_estimator(
            SVC().fit(flowers[:, 2:], kinds), flowers[:, 2:], kinds, grid_resolution=150
        ),
        "cluster": SimpleNamespace(figure_=cluster()),
        **{name: SimpleNamespace(figure_=draw()) for name, draw in IDEAS.items()},
    }


def cluster() -> plt.Figure:
    """What lies where during a fit on a cluster, and what is sent."""
    figure, axes = plt.subplots(figsize=(7.6, 3.6), layout="constrained")
    axes.set(xlim=(-1, 101), ylim=(-1, 51))
    axes.axis("off")

    def box(x: float, y: float, width: float, height: float, title: str, *lines: str) -> None:
        shape = "round,pad=0,rounding_size=1"
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, fill=False, edgecolor=INK))
        axes.text(x + 1.5, y + height - 1.2, title, va="top", weight="bold", size=9)
        axes.text(x + 1.5, y + height - 5, "\n".join(lines), va="top", size=8, linespacing=1.35)

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK})

    box(
        0,
        15,
        27,
        20,
        "driver",
        "w and b, the Hessian,",
        "the kernel's working set,",
        "labels, norms;",
        "proof and model",
    )
    for k in range(3):
        y = 34 - 17 * k
        box(55, y, 28, 13.5, f"worker {k + 1}", "its rows of X", "their margins and duals", "its part of kernel rows")
        box(89, y + 2.75, 11, 8, "files", "of rows")
        arrow((89, y + 6.75), (83.3, y + 6.75))
        arrow((27.3, 26.5), (54.7, y + 8.5))
        arrow((54.7, y + 6.5), (27.3, 23.5))
    axes.text(30, 38, "w, a step,\nnew samples", size=8, ha="left", va="center")
    axes.text(30, 10, "sums over rows", size=8, ha="left", va="center")
    return figure


def main() -> None:
    matplotlib.use("agg")
    FOLDER.mkdir(exist_ok=True)
    with plt.rc_context(STYLE):
        for name, display in pictures().items():
            path = FOLDER / f"{name}.svg"
            display.figure_.savefig(path, transparent=True, metadata={"Date": None})
            print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
