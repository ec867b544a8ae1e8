"""The worked examples do what they say."""

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
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


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not part of an installed package")
def test_random_features(capsys):
    main = runpy.run_path(str(EXAMPLES / "random_features.py"))["main"]
    features, decisions, error, full_error, linear_error = main(n=1_000, D=500)
    assert features.computed <= 0.2 * features.n_stored
    assert decisions.decided.all()
    assert full_error <= error < linear_error - 0.05
    assert "without random features" in capsys.readouterr().out


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not part of an installed package")
def test_the_feature_service(capsys):
    """The bill of the service is what was counted on our side, within the budget; nothing is lost with the program."""
    main = runpy.run_path(str(EXAMPLES / "feature_service.py"))["main"]
    service, error, budget, bill, known = main(n=200, d=40)
    assert 0.5 * budget < bill <= budget * (1 + 1e-9)
    assert known == pytest.approx(bill)
    assert service.bill == bill
    assert error < 0.3
    assert "requests" in capsys.readouterr().out


@pytest.mark.skipif(not EXAMPLES.exists(), reason="the examples are not part of an installed package")
@pytest.mark.parametrize(
    "name", ["certificate", "digits", "one_percent", "outliers", "path", "prices", "sdp", "text"]
)  # `make docs` runs all of them
def test_an_example_of_the_gallery_draws_a_picture(name, monkeypatch):
    matplotlib.use("Agg")
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.extend(plt.get_fignums()))
    try:
        runpy.run_path(str(EXAMPLES / f"{name}.py"))
        assert drawn
    finally:
        plt.close("all")
