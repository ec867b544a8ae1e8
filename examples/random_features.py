"""
Random features on demand
=========================

A linear SVM on random Fourier features approximates a kernel SVM. Here ``OnDemand`` computes only the features that the
solver asks for, instead of a table of all features. The picture shows how many features each test label needs.

With directions omega_j drawn from a Gaussian and phases beta_j drawn uniformly, the features
``z_j(x) = sqrt(2 / D) cos(<omega_j, x> + beta_j)`` have ``<z(x), z(x')> = exp(-gamma |x - x'|^2)`` in the mean
("kernels, through linearization": Hazan, Koren and Srebro 2011, section 7). More features are better, but a table of
them for all samples takes time and memory.

SIMBA asks for a row, all features of one sample, or for a column, one feature of all samples, and stops when the budget
is spent. Then each test sample is decided by as few features as its label needs. The ranges of the features are known,
because a cosine lies between -1 and 1.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC
from maxmargin.data import OnDemand


def main(n=4_000, D=2_000, share=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X, y = rings(n, rng)
    X_test, y_test = rings(2_000, rng)
    omega, beta = rng.normal(scale=3.0, size=(X.shape[1], D)), rng.uniform(0, 2 * np.pi, D)
    features = on_demand(X, omega, beta)

    # |z(x)|^2 is at most 2, so no pass is needed to find the largest norm. A certificate would take another pass.
    model = LinearSVC(
        solver="simba", slack=0.02, scale=np.sqrt(2), budget=share * n * D, certify=False, random_state=seed
    ).fit(features, y)
    print(f"{n:,} samples, {D:,} features: {features.n_stored:,} entries")
    print(f"computed        {features.computed:,} entries, {features.computed / features.n_stored:.1%} of them")

    tested = on_demand(X_test, omega, beta)
    bound = np.sqrt(2 / D)
    decisions = model.decide(tested, ranges=(-bound, bound))
    error = np.mean(decisions.labels != y_test)
    print(f"test error      {error:.1%}, {decisions.entries.mean():.0f} features a sample")

    full = LinearSVC().fit(fourier(X, omega, beta), y)
    full_error = 1 - full.score(fourier(X_test, omega, beta), y_test)
    # No straight line separates rings: without random features, a linear model predicts the larger class for all.
    linear_error = min(np.mean(y_test == 1), np.mean(y_test == -1))
    print(f"for comparison  {full_error:.1%} from all entries, {linear_error:.1%} without random features")
    return features, decisions, error, full_error, linear_error


def fourier(X, omega, beta):
    """All features of these samples."""
    return np.sqrt(2 / beta.size) * np.cos(X @ omega + beta)


def on_demand(X, omega, beta):
    """The same features, each computed when it is asked for."""
    scale = np.sqrt(2 / beta.size)
    return OnDemand(
        X.shape[0],
        beta.size,
        rows=lambda i: fourier(X[i], omega, beta),
        columns=lambda j: scale * np.cos(X @ omega[:, j] + beta[j]),
        entries=lambda i, j: scale * np.cos(np.einsum("ik,ki->i", X[i], omega[:, j]) + beta[j]),
    )


def rings(n, rng):
    """Points of two classes that alternate on rings around the origin."""
    radius, angle = rng.uniform(0, 3, n), rng.uniform(0, 2 * np.pi, n)
    y = np.where(radius.astype(int) % 2 == 0, 1, -1)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


# %%
# The picture shows how many of the 2,000 features make the label of a test sample certain.


def draw(decisions):
    _, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.hist(decisions.entries, bins=40)
    axes.set(xlabel="features that a label needs", ylabel="test samples")
    plt.show()


if __name__ == "__main__":
    draw(main()[1])
