"""The worked examples do what they say."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from maxmargin import solve
from maxmargin.core import l1_sample
from maxmargin.problems import MaxMin
from maxmargin.solvers import PrimalDual

ROOT = Path(__file__).parents[1]
EXAMPLES, PAGE = ROOT / "examples", ROOT / "docs" / "primal_dual.md"


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


@pytest.mark.skipif(not PAGE.exists(), reason="the pages are not part of an installed package")
def test_what_the_page_on_primal_dual_shows(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    shown = {"__name__": "primal_dual_page"}
    exec(compile("\n".join(blocks), str(PAGE), "exec"), shown)
    assert shown["result"].status == "finished"
    assert "the best possible to within" in capsys.readouterr().out
    # The player does what it says, against a game whose best strategy is known.
    A = np.eye(4)
    game = MaxMin(
        4,
        sample=lambda x, rng: A[:, l1_sample(x, rng.random())],
        gradient=lambda i, x: A[i],
        values=lambda x: A @ x,
        bound=lambda p: p.max(),
    )
    result = solve(game, PrimalDual(shown["Hedge"](4), eps=0.1, constant=1), random_state=0)
    assert result.certificate.primal >= 0.15
    assert result.certificate.dual <= 0.35
