"""Reading semidefinite programs from .npz and SDPA files."""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.data.sdpa import ProgramArrays, parse_sdpa
from maxmargin.data.streams import FileFormatError, open_to_read, plain_suffix, random_access

_CSR = ("A_data", "A_indices", "A_indptr")
_KNOWN = {"A", *_CSR, "C", "b", "sense", "trace_bound", "trace"}


def read_program(path: str | os.PathLike[str]) -> ProgramArrays:
    """Read a semidefinite program: max C.X with A_i.X >=, <= or = b_i, X positive semidefinite, tr X <= trace_bound.

    The file is a zip archive of arrays, as :func:`numpy.savez` writes it, or an SDPA sparse file (.dat-s), see
    :func:`maxmargin.data.read_sdpa`. Both may be compressed and come from a pipe. The arrays are:

    ================================ ================== ==============================================================
    array                            shape              meaning
    ================================ ================== ==============================================================
    A                                (m, n, n)          the constraints; or
    A_data, A_indices, A_indptr      of CSR (m, n * n)  the constraints, one in each row, without the zeros
    b                                (m,)               the right-hand sides
    sense                            () or (m,)         ">=" (the default), "<=" or "=", for all or for each
    C                                (n, n)             the objective; the default is 0: any feasible X is optimal
    trace_bound                      ()                 the largest trace of X, if known
    trace                            ()                 "at most" (the default) or "exactly"
    ================================ ================== ==============================================================

    Parameters
    ----------
    path : str or path
        The file; "-" means standard input.

    Returns
    -------
    ProgramArrays
        The program in plain arrays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from maxmargin.data import read_program
    >>> path = Path(tempfile.mkdtemp()) / "small.npz"
    >>> np.savez(path, C=np.eye(2), A=np.ones((1, 2, 2)), b=[1.0], sense="<=", trace_bound=2.0)
    >>> program = read_program(path)
    >>> program.sense.tolist(), program.trace_bound
    (['<='], 2.0)
    """
    with open_to_read(path) as stream:
        if not stream.head.startswith(b"PK") and plain_suffix(path) != ".npz":
            return parse_sdpa(stream)
        try:
            with random_access(stream) as file, np.load(file, allow_pickle=False) as arrays:
                return _program({name: arrays[name] for name in arrays})
        except (EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise FileFormatError(stream.name, None, None, f"not a file of a program's arrays: {error}") from error


def _program(arrays: dict[str, Any]) -> ProgramArrays:
    if unknown := sorted(set(arrays) - _KNOWN):
        raise ValueError(f"unknown array {unknown[0]!r}; expected {', '.join(sorted(_KNOWN))}")
    if "b" not in arrays or not ("A" in arrays or all(name in arrays for name in _CSR)):
        raise ValueError(f"expected b and A (or {', '.join(_CSR)}); found {', '.join(arrays) or 'none'}")
    b, sense = _numbers("b", arrays["b"]), arrays.get("sense", np.array(">="))
    if b.ndim != 1:
        raise ValueError(f"b has shape {b.shape}; expected (m,), one number for each constraint")
    if sense.dtype.kind != "U" or sense.shape not in ((), b.shape):
        raise ValueError(f"sense is {sense.dtype} of shape {sense.shape}; expected words, one or {b.size}")
    A = _numbers("A", arrays["A"]) if "A" in arrays else None
    C = _numbers("C", arrays["C"]) if "C" in arrays else None
    if C is not None:
        n = math.isqrt(C.size)
    else:  # the number of rows of the CSR matrices is known only from their largest index
        n = A.shape[-1] if A is not None else math.isqrt(int(np.max(arrays["A_indices"], initial=0))) + 1
        C = np.zeros((n, n))
    if A is None:
        parts = (_numbers("A_data", arrays["A_data"]), arrays["A_indices"], arrays["A_indptr"])
        A = sp.csr_array(parts, shape=(b.size, n * n))
        A.check_format()
    bound = arrays.get("trace_bound")
    if bound is not None and bound.size != 1:
        raise ValueError(f"trace_bound has shape {bound.shape}; expected one number")
    return ProgramArrays(
        C,
        A,
        b,
        np.array(np.broadcast_to(sense, b.shape)),
        None if bound is None else float(_numbers("trace_bound", bound).item()),
        str(arrays.get("trace", "at most")),
        (n,),
    )


def _numbers(name: str, values: Any) -> Any:
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds {values.dtype}; expected numbers")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
