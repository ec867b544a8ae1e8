"""
A semidefinite program
======================

Is there a positive semidefinite matrix X, not zero, with ``A_i.X >= 0`` for all of the given matrices A_i? ``decide``
answers from a part of their entries and proves its answer. The picture shows the interval that contains the best value,
for one feasible and two infeasible programs.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin.problems import SemidefiniteFeasibility
from maxmargin.solvers import decide


def matrices(shift, m=40, n=8):
    """Random symmetric matrices. The more they are shifted towards the identity, the easier it is to find an X."""
    A = np.random.default_rng(0).normal(size=(m, n, n))
    return (A + A.transpose(0, 2, 1)) / 2 + shift * np.eye(n)


results = {}
for shift in (0.5, 0.0, -0.5):
    results[shift] = decide(SemidefiniteFeasibility(matrices(shift)), eps=0.05, random_state=0)
    print(f"shift {shift:4}: {results[shift].certificate}")

# %%
# The best value lies between the value of the X that was found and the bound that no X can exceed. The program is
# feasible if the value is at least zero; a bound below zero proves that it is infeasible.

figure, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
for row, result in enumerate(results.values()):
    reached, bound = result.certificate.primal, result.certificate.dual
    axes.plot([reached, bound], [row, row], lw=6, solid_capstyle="butt")
    axes.annotate(f" {reached:.3f} to {bound:.3f}", (bound, row), va="center")
axes.axvline(0, color="gray", lw=0.8)
axes.set_yticks(range(len(results)), [f"shift {shift}" for shift in results])
axes.margins(0.3, 0.3)
axes.set(xlabel="the best min A_i.X over X of trace 1 lies here", ylim=(2.6, -0.6))
plt.show()
