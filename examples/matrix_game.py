"""
A matrix game
=============

``PrimalDual`` solves max-min problems of your own; here it solves a game from a part of its payments. The picture shows
what the strategy earns against each row of the opponent, and the bound that no strategy can beat.

We choose a column of A, our opponent chooses a row, and we are paid the entry where they meet. A mixed strategy is a
point x of the simplex, which says how often we play each column. Its value is what it earns against the worst row::

    max over x on the simplex of  min over i of  <A_i, x>.

``PrimalDual`` needs a player for x, here one from the package, and a few lines of NumPy: an estimate of the earnings
against all rows, the gradient for one row, the exact earnings, and a bound that no strategy can beat.
``docs/primal_dual.md`` explains each.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

from maxmargin import solve
from maxmargin.core import l1_sample
from maxmargin.problems import MaxMin
from maxmargin.solvers import ExponentiatedGradient, PrimalDual


def main(small=400, large=4_000, eps=0.25, seed=0):
    print("A game that a linear program can solve as well")
    A = payments(small, seed)
    result = play(A, eps, seed)
    started = time.perf_counter()
    best = exactly(A)
    print(f"  linprog         {best:.4f} in {time.perf_counter() - started:.2f} seconds")
    print("A game ten times as wide and as high")
    return result, best, play(payments(large, seed), eps, seed)


def play(A, eps, seed):
    """Find a strategy that should be within eps of the best, with a certificate."""
    n, d = A.shape
    game = MaxMin(
        n,
        # If we draw column j from x, row i pays us A_ij. This estimate is unbiased for all rows at once, and its
        # variance is at most 1, because all payments are between -1 and 1.
        sample=lambda x, rng: A[:, l1_sample(x, rng.random())],
        gradient=lambda i, x: A[i],
        # `values` and `bound` read all of A. They are called only at the end, to certify the answer.
        values=lambda x: A @ x,
        # If the opponent plays the rows with frequencies p, no strategy earns more than the best column does.
        bound=lambda p: np.max(p @ A),
        reads=(n, d, n * d),
    )
    # The theorem holds for a constant of 23, which covers the worst game. With 1/2 there are a hundredth as many rounds
    # and no promise, but the certificate still says how good the answer is.
    solver = PrimalDual(ExponentiatedGradient(d), eps=eps, constant=0.5)
    started = time.perf_counter()
    result = solve(game, solver, random_state=seed)
    seconds = time.perf_counter() - started
    read = result.reads["learning"]
    print(f"  payments        {n:,} x {d:,}")
    print(f"  strategy        earns at least {result.certificate.primal:.4f}")
    print(f"  bound           and none earns more than {result.certificate.dual:.4f} against every row")
    print(f"  entries read    {read:,} ({100 * read / A.size:.0f} % of all) in {result.n_iter:,} rounds")
    print(f"  seconds         {seconds:.2f}, certificate included")
    return result


def payments(size, seed):
    """Payments between -1 and 1 with mean 0, except for a few columns that are good against most rows."""
    rng = np.random.default_rng(seed)
    A = rng.uniform(-0.5, 0.5, size=(size, size)).astype(np.float32)
    A[:, rng.choice(size, size // 20, replace=False)] += 0.4
    return A


def exactly(A):
    """The value of the game from a linear program over (x, v): max v such that A x >= v and x is on the simplex."""
    n, d = A.shape
    answer = linprog(
        np.r_[np.zeros(d), -1.0],
        A_ub=np.column_stack([-A, np.ones(n)]),
        b_ub=np.zeros(n),
        A_eq=[np.r_[np.ones(d), 0.0]],
        b_eq=[1.0],
        bounds=[(0, None)] * d + [(None, None)],
    )
    return -answer.fun


# %%
# The picture shows what the strategy for the small game earns against each row, and the bound that none can exceed.


def draw(result, A):
    earned = np.sort(A @ result.solution.w)
    _, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.plot(earned, label="earned against each row")
    axes.axhline(result.certificate.primal, color="C2", ls="--", label="the worst row")
    axes.axhline(result.certificate.dual, color="C3", ls="--", label="no strategy has a better worst row")
    axes.set(xlabel="rows of the opponent, by what we earn", ylabel="payment")
    axes.legend()
    plt.show()


if __name__ == "__main__":
    small, _, _ = main()
    draw(small, payments(400, 0))
