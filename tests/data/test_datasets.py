"""The data that comes with the package, and where other data is looked for."""

import numpy as np
import pytest

from maxmargin.data import datasets, find_dataset, load_adult


def test_adult_is_what_its_readme_says():
    X_train, y_train, X_test, y_test = load_adult()
    assert X_train.shape == (32561, 123)
    assert X_test.shape == (16281, 123)
    assert X_train.dtype == X_test.dtype == np.float32
    assert X_train.nnz == 451592
    assert ((y_train == 1).sum(), (y_test == 1).sum()) == (7841, 3846)
    assert set(np.unique(y_train)) == set(np.unique(y_test)) == {-1, 1}
    assert set(X_train.data) == set(X_test.data) == {1}
    assert X_train.sum(axis=0).min() > 0  # no feature is empty, so none is off by one


@pytest.fixture
def no_data(tmp_path, monkeypatch):
    """A current folder and a checkout with no data beside them."""
    here = tmp_path / "work" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setattr(datasets, "_HERE", tmp_path / "checkout" / "main" / "src" / "maxmargin" / "data")
    monkeypatch.delenv("MAXMARGIN_DATA", raising=False)
    return tmp_path


def test_data_sets_are_looked_for_in_three_places(no_data, monkeypatch):
    beside_here, beside_checkout, given = (
        no_data / "work/shared/data",
        no_data / "checkout/shared/data",
        no_data / "given",
    )
    for folder in beside_here, beside_checkout, given:
        (folder / "news20").mkdir(parents=True)
        if folder == given:
            monkeypatch.setenv("MAXMARGIN_DATA", str(given))
        assert find_dataset("news20") == folder / "news20"
    (beside_here / "news20" / "a.bz2").touch()
    assert find_dataset("news20/a.bz2") == beside_here / "news20" / "a.bz2"


def test_a_missing_data_set_says_how_to_get_it(no_data):
    with pytest.raises(FileNotFoundError, match=r"'covtype'.*shared.*fetch_covtype.*MAXMARGIN_DATA"):
        find_dataset("covtype")
