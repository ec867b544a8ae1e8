"""
A regularisation path
=====================

How much wider does the margin become if a model allows more errors? ``slack_path`` fits models from a wide margin with
many samples inside it to a narrow margin; each fit begins where the last one ended. The pictures show the path and the
decision regions of three of its models.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from maxmargin import slack_path
from maxmargin.display import PathDisplay, RegionsDisplay

X, y = make_moons(400, noise=0.3, random_state=0)
path = slack_path(X, y, kernel="rbf", random_state=0)
PathDisplay.from_path(path)
plt.show()

# %%
# Three models of the path have much, some and little slack.

figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
slacks = path.column("slack")
for k, panel in zip([1, len(slacks) // 2, len(slacks) - 1], panels, strict=True):
    RegionsDisplay.from_estimator(path.model(k), X, y, ax=panel, grid_resolution=80)
    panel.set_title(f"slack {slacks[k]:.3g}")
plt.show()
