"""
Reading one per cent of a matrix
================================

If a few hard samples decide and all others are easy, a solver does not have to read most entries of the matrix. SIMBA
reads columns to find out which rows matter, and then reads those rows.

Here 0.5 % of the samples are hard: they lie near the boundary, and another feature tells their classes apart. SIMBA and
a solver that reads only rows learn with the same budgets. The picture shows how many hard samples they get wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC

n = d = 2000
rng = np.random.default_rng(0)
y = np.where(rng.random(n) < 0.5, 1, -1)
X = (rng.normal(size=(n, d)) / np.sqrt(d)).astype(np.float32)
hard = rng.choice(n, n // 200, replace=False)
easy = np.setdiff1d(np.arange(n), hard)
X[easy, 0] += y[easy]  # one feature is enough for the easy samples
X[hard, 0] -= 0.5 * y[hard]  # but it misleads for the hard ones,
X[hard, 1] += y[hard]  # which another feature tells apart
print(f"{X.size:,} entries, {len(hard)} hard samples")

# %%
# With ``scale`` and ``certify=False`` the fit makes no pass over the data for the largest norm and the certificate.

scale = float(np.sqrt((X**2).sum(axis=1).max()))
shares = [0.005, 0.01, 0.02, 0.05, 0.1]
wrong = {"simba": [], "perceptron": []}
for solver, errors in wrong.items():
    for share in shares:
        model = LinearSVC(
            slack=0.001, solver=solver, budget=int(share * X.size), scale=scale, certify=False, random_state=0
        ).fit(X, y)
        errors.append(np.mean(model.predict(X[hard]) != y[hard]))
        print(f"{solver:10}  read {model.entries_read_ / X.size:5.1%}: {errors[-1]:4.0%} of the hard samples wrong")

# %%
# A solver that reads only rows finds the hard rows only by chance.

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(100 * np.array(shares), 100 * np.array(wrong["simba"]), "o-", label="SIMBA: rows and columns")
axes.plot(100 * np.array(shares), 100 * np.array(wrong["perceptron"]), "s--", label="perceptron: rows only")
axes.set(xscale="log", xlabel="entries that may be read, %", ylabel="hard samples that are wrong, %")
axes.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
axes.legend()
plt.show()
