"""Draws the pictures of the pages into docs/pictures, as SVG: `.venv/bin/python docs/draw.py`."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from sklearn.datasets import load_iris, make_moons

from maxmargin import SVC, SVCCV, LinearSVCCV, slack_path
from maxmargin.display import MarginDisplay, PathDisplay, RegionsDisplay, SearchDisplay

FOLDER = Path(__file__).parent / "pictures"
INK = "#808080"  # readable on the light and on the dark background of a page
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
    }


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
