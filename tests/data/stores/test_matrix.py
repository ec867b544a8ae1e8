"""A Matrix on a store gives the same products as one in memory, and its ledger counts chunks and bytes."""

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from maxmargin.data import as_matrix, convert, open_store, refuse_not_finite

rng = np.random.default_rng(0)
X = np.where(rng.random((200, 30)) < 0.3, rng.standard_normal((200, 30)), 0)


@pytest.mark.parametrize("by_column", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["a.zarr", "a.h5"])
def test_products_are_those_in_memory(name, sparse, by_column, tmp_path):
    np.save(tmp_path / "a.npy", X)
    convert(tmp_path / "a.npy", tmp_path / name, sparse=sparse, also_by_column=by_column, label_column=None)
    stored = as_matrix(open_store(tmp_path / name, cache_size=50_000))
    memory = as_matrix(sp.csr_array(X) if sparse else X)
    w, p = rng.standard_normal(30), rng.standard_normal(200)
    assert stored.dot(w).tolist() == memory.dot(w).tolist()
    assert np.allclose(stored.dot_transposed(p), memory.dot_transposed(p), rtol=1e-12)
    assert stored.ledger.entries_read == memory.ledger.entries_read
    assert stored.row_sq_norms().tolist() == memory.row_sq_norms().tolist()
    into = [np.zeros(200), np.zeros(200)]
    for matrix, total in zip((stored, memory), into, strict=True):
        for k in (3, 17, 4):
            matrix.add_column(k, 0.5, total)
    assert into[0].tolist() == into[1].tolist()


def test_the_position_of_nan_is_named(tmp_path):
    rows = X.copy()
    rows[150, 7] = np.nan
    zarr.create_array(tmp_path / "a.zarr", data=rows, chunks=(32, 8))
    with pytest.raises(ValueError, match="X contains NaN at row 150, column 7"):
        refuse_not_finite(as_matrix(open_store(tmp_path / "a.zarr")))
