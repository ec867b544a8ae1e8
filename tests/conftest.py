"""What several rooms test with."""

import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def storages(tmp_path):
    """The same matrix in every way that it may be stored."""

    def store(X):
        mapped = np.memmap(tmp_path / "X", dtype=X.dtype, mode="w+", shape=X.shape)
        mapped[:] = X
        mapped.flush()
        readonly = X.copy()
        readonly.flags.writeable = False
        csr = sp.csr_array(X)
        unsorted = csr.copy()
        for start, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
            unsorted.indices[start:end] = csr.indices[start:end][::-1]
            unsorted.data[start:end] = csr.data[start:end][::-1]
        unsorted.has_sorted_indices = False
        halves = (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr)
        return {
            "fortran": np.asfortranarray(X),
            "read-only": readonly,
            "view": np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
            "reversed": X[::-1, ::-1].copy()[::-1, ::-1],
            "memory map": np.memmap(tmp_path / "X", dtype=X.dtype, mode="r", shape=X.shape),
            "csr": csr,
            "csr matrix": sp.csr_matrix(X),
            "csc": sp.csc_array(X),
            "int64 indices": sp.csr_array(
                (csr.data, csr.indices.astype(np.int64), csr.indptr.astype(np.int64)), X.shape
            ),
            "unsorted": unsorted,
            "duplicates": sp.csr_array(halves, X.shape),
        }

    return store


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Ctrl-C in one test is no sign of impatience in the next."""
    monkeypatch.setattr("maxmargin.solvers.interrupt._last", -float("inf"))
