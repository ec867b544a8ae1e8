"""Players: after T rounds none falls short of the best fixed point by more than its regret, whatever came."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin.game.sets import Ball, Box, Simplex, Spectrahedron
from maxmargin.solvers import ExponentiatedGradient, LazyGradient, Player

D = 3
SETS = {
    "ball": Ball(D),
    "small ball": Ball(D, radius=0.2),
    "box": Box([-1.0, 0.0, 0.5], [1.0, 2.0, 0.5]),
    "simplex": Simplex(D),
    "spectrahedron": Spectrahedron(D),
}
PLAYERS = {f"lazy gradient, {name}": (LazyGradient(over), over) for name, over in SETS.items()}
PLAYERS["exponentiated gradient"] = (ExponentiatedGradient(D), Simplex(D))


def gradients(kind, player, over, rng):
    """What comes: a function of the points so far. Of a norm of at most 1, or for the simplex of entries up to 1."""
    drawn = rng.normal(size=over.centre.shape)

    def unit(g):
        g = (g + g.T) / 2 if g.ndim == 2 else g
        if isinstance(player, ExponentiatedGradient):
            return np.clip(g / max(np.abs(g).max(), 1e-300), -1, 1)
        return g / max(np.linalg.norm(g), 1e-300)

    if kind == "random":
        return lambda t, x: unit(rng.normal(size=x.shape)) * rng.random()
    if kind == "constant":
        return lambda t, x: unit(drawn)
    if kind == "alternating":
        return lambda t, x: unit(drawn) * (-1) ** t
    if kind == "against":  # as little gained as can be where the player stands
        return lambda t, x: unit(over.centre - x + 1e-9 * drawn)
    return lambda t, x: unit(drawn if t < 20 else -drawn)  # turning


@pytest.mark.parametrize("kind", ["random", "constant", "alternating", "against", "turning"])
@pytest.mark.parametrize("name", PLAYERS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), T=st.integers(1, 60))
def test_the_regret(name, kind, seed, T):
    """Lemma 2.7 of Irpan and Kwan (2015), on sets other than the ball too."""
    player, over = PLAYERS[name]
    next_g = gradients(kind, player, over, np.random.default_rng(seed))
    state = player.start(T)
    gained, total = 0.0, np.zeros(over.centre.shape)
    for t in range(T):
        x = state.x.copy()
        np.testing.assert_allclose(over.project(x), x, atol=1e-9)  # it stays inside its set
        g = next_g(t, x)
        gained, total = gained + np.sum(g * x), total + g
        player.update(state, g)
    regret = over.support(total) - gained
    assert regret <= player.regret(T) + 1e-9
    # The best constants of the proofs, with the rates that are used, are 3/4 and 3/8 of the promised ones.
    share = 0.75 if isinstance(player, ExponentiatedGradient) else 0.375
    assert regret <= share * player.regret(T) + 1e-9


@pytest.mark.parametrize("name", PLAYERS)
def test_regrets_grow_more_slowly_than_the_rounds(name):
    player, _ = PLAYERS[name]
    assert player.regret(10**6) / 10**6 < 0.1 * player.regret(10**3) / 10**3


def test_lazy_gradient_is_the_minimizer_of_the_lemma():
    """x_{t+1} is where the sum of products, less sqrt(2T)/2 |x|^2, is largest over the ball.

    (The survey prints sqrt(2T) |x|^2, to which its solution does not belong: half of that is what its y stands for.)
    """
    rng = np.random.default_rng(0)
    T = 50
    player = LazyGradient(Ball(2))
    state, total = player.start(T), np.zeros(2)
    angle, length = np.meshgrid(np.linspace(0, 2 * np.pi, 721), np.linspace(0, 1, 201))
    grid = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=-1).reshape(-1, 2)
    for _ in range(T):
        g = rng.normal(size=2) + np.array([1.0, 0.0])
        g /= max(1.0, np.linalg.norm(g))
        total += g
        player.update(state, g)

        def value(x, total=total):
            return x @ total - math.sqrt(2 * T) / 2 * (x**2).sum(axis=-1)

        assert value(state.x) >= value(grid).max() - 1e-9


def test_a_player_needs_its_three_methods():
    class Idle(Player):
        def start(self, T):
            return None

    with pytest.raises(TypeError, match="abstract"):
        Idle()
