"""The worked examples do what they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not part of an installed package")
def test_the_matrix_game(capsys):
    """Over three seeds, on a small game; the gap is far from eps at this size, so that no draw is unlucky enough."""
    main = runpy.run_path(str(EXAMPLES / "matrix_game.py"))["main"]
    for seed in range(3):
        small, best, large = main(small=60, large=120, seed=seed)
        assert small.certificate.primal <= best + 1e-6 <= small.certificate.dual + 2e-6
        assert small.certificate.primal >= best - 0.25
        assert large.certificate.gap < 0.5
    printed = capsys.readouterr().out
    assert "linprog" in printed
    assert "entries read" in printed
