"""Model files that an older version has written load, and the models decide as they did."""

from pathlib import Path

import numpy as np
import pytest

from maxmargin import load_model

FILES = Path(__file__).parent / "files"
EXPECTED = np.load(FILES / "expected.npz")  # X, and the decision values of each model on it
MODELS = sorted(path.stem for path in FILES.glob("*.mm"))


def test_every_file_has_expected_values():
    assert {"X", *MODELS} == set(EXPECTED)


@pytest.mark.parametrize("name", MODELS)
def test_an_older_model_decides_as_it_did(name):
    model = load_model(FILES / f"{name}.mm")
    values = model.decision_function(EXPECTED["X"])
    np.testing.assert_allclose(values, EXPECTED[name], rtol=1e-12, atol=1e-12)
    assert model.predict(EXPECTED["X"]).shape == (8,)
    assert model.get_params()["random_state"] in (0, None)


@pytest.mark.parametrize("name", ["linear_two_classes", "rbf_two_classes"])
def test_an_older_model_has_kept_its_certificate_and_trace(name):
    model = load_model(FILES / f"{name}.mm")
    assert 0 <= model.certificate_.relative_gap <= 1e-3
    assert model.trace_[-1].iteration > 0
    assert model.stopped_ == "tol"


@pytest.mark.parametrize(
    ("name", "unit"), [("linear_two_classes", "entries_read"), ("rbf_two_classes", "kernel_evaluations")]
)
def test_a_check_of_an_older_model_has_one_cost(name, unit):
    """Older versions wrote kernel evaluations as entries read too."""
    last = load_model(FILES / f"{name}.mm").trace_[-1]
    assert getattr(last, unit) == last.cost == last.entries_read + last.kernel_evaluations > 0


def test_an_older_model_goes_on_learning():
    X, y = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]] * 5), np.array([0, 1] * 5)
    online = load_model(FILES / "linear_online.mm")
    before = online.coef_.copy()
    assert (online.partial_fit(X, y).coef_ != before).any()
    warm = load_model(FILES / "linear_warm_start.mm")
    assert warm.set_params(C=0.9).fit(*training_data()).stopped_ == "tol"


def training_data():
    """What the file was written after, so that a warm start is possible."""
    rng = np.random.default_rng(0)
    label = np.arange(36) % 2
    return (rng.normal(size=(36, 3)) + 2.0 * np.eye(2, 3)[label]).round(3), label
