"""
Outliers
========

``EnclosingBall`` finds the smallest ball around nearly all samples in the space of a kernel. The few samples outside
are outliers. The picture shows the surface of the ball in the plane of the data.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from maxmargin import EnclosingBall

rng = np.random.default_rng(0)
X, _ = make_moons(300, noise=0.08, random_state=0)
X = np.vstack([X, rng.uniform([-1.8, -1.3], [2.8, 1.8], size=(15, 2))])

ball = EnclosingBall(nu=0.06, kernel="rbf", gamma=4.0).fit(X)
outside = ball.predict(X) == -1
print(f"outliers      {outside.sum()} of {len(X)} samples")
print(f"certificate   {ball.certificate_}")

# %%
# ``decision_function`` is positive inside the ball. In the plane, the surface of the ball follows the data.

x, z = np.meshgrid(np.linspace(-2, 3, 150), np.linspace(-1.5, 2, 120))
height = ball.decision_function(np.column_stack([x.ravel(), z.ravel()])).reshape(x.shape)

figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
axes.contourf(x, z, height, levels=[0, height.max()], colors=["C0"], alpha=0.15)
axes.contour(x, z, height, levels=[0], colors=["C0"])
axes.scatter(*X[~outside].T, s=12, color="C0", label="inside")
axes.scatter(*X[outside].T, s=30, color="C3", marker="x", label="outliers")
axes.legend()
plt.show()
