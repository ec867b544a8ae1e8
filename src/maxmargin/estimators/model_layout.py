"""What of each estimator a model file holds: fields of its header, and arrays whose shapes follow from those."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.data import as_matrix
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.kernel import SVC
from maxmargin.estimators.linear import LinearSVC
from maxmargin.estimators.model_fields import (
    Reader,
    Wrong,
    count,
    expected,
    list_of,
    made,
    number,
    optional,
    record,
    scalar,
    table,
    text,
    to_json,
)
from maxmargin.problems.kernels import KERNELS

Arrays = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, tuple[int, ...]]]  # type and shape of the array of each name


class Layout:
    """What all estimators have. `whole` are attributes that stand in the header as they are, without the underscore."""

    estimator: ClassVar[type[MarginClassifier]]
    whole: ClassVar[dict[str, Reader]] = {
        "entries_read": count,
        "kernel_evaluations": count,
        "reads": table(count),
        "scale": number,
        "solver": text,
        "loss": text,
    }
    more: ClassVar[dict[str, Reader]] = {}  # other fields

    def describe(self, model: Any) -> dict[str, Any]:
        """The fields of a model."""
        return {name: to_json(getattr(model, f"{name}_")) for name in self.whole}

    def arrays(self, model: Any) -> Arrays:
        """The arrays of a model."""
        raise NotImplementedError

    def shapes(self, model: Any, header: Mapping[str, Any]) -> Shapes:
        """What arrays there must be for these fields; `model` has its parameters and classes."""
        raise NotImplementedError

    def restore(self, model: Any, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Set the attributes; arrays are of the shapes above."""
        for name in self.whole:
            setattr(model, f"{name}_", header[name])
        for name, array in arrays.items():
            setattr(model, f"{name}_", array)


class LinearLayout(Layout):
    """Coefficients and, where they are known, the examples behind them."""

    estimator = LinearSVC
    whole: ClassVar[dict[str, Reader]] = {**Layout.whole, "n_iter": count, "n_zero_rows": optional(count)}
    more: ClassVar[dict[str, Reader]] = {"n_support": optional(count)}

    def describe(self, model: LinearSVC) -> dict[str, Any]:
        return {"n_support": model.support_.size if hasattr(model, "support_") else None, **super().describe(model)}

    def arrays(self, model: LinearSVC) -> Arrays:
        dense = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
        arrays = {"coef": dense, "intercept": model.intercept_}
        if hasattr(model, "support_"):
            arrays |= {"support": model.support_.astype("<i8"), "dual_coef": model.dual_coef_}
        return arrays

    def shapes(self, model: LinearSVC, header: Mapping[str, Any]) -> Shapes:
        k, d, m = len(model._contenders), header["n_features_in"], header["n_support"]
        shapes: Shapes = {"coef": ("<f8", (k, d)), "intercept": ("<f8", (k,))}
        return shapes if m is None else {**shapes, "support": ("<i8", (m,)), "dual_coef": ("<f8", (k, m))}

    def restore(self, model: LinearSVC, header: Mapping[str, Any], arrays: Arrays) -> None:
        super().restore(model, header, arrays)
        model._training_data = None


class KernelLayout(Layout):
    """The kernel, the support vectors and their coefficients."""

    estimator = SVC
    whole: ClassVar[dict[str, Reader]] = {
        **Layout.whole,
        "kernel_evaluations_saved": count,
        "gamma": number,
        "fit_status": count,
    }
    more: ClassVar[dict[str, Reader]] = {
        "n_support": count,
        "shape_fit": list_of(count),
        "kernel": record(name=text, fields=table(scalar)),
        "vectors": record(type=text, stored=optional(count)),  # how many entries are stored, of a sparse matrix
    }

    def describe(self, model: SVC) -> dict[str, Any]:
        vectors = model.support_vectors_
        return {
            "n_support": model.support_.size,
            "shape_fit": list(model.shape_fit_),
            "kernel": {"name": model._kernel.name, "fields": to_json(dataclasses.asdict(model._kernel))},  # type: ignore[call-overload]
            "vectors": {
                "type": vectors.dtype.newbyteorder("<").str,
                "stored": vectors.nnz if sp.issparse(vectors) else None,
            },
            **super().describe(model),
        }

    def arrays(self, model: SVC) -> Arrays:
        names = ("support", "n_support", "intercept", "class_weight", "n_iter")
        arrays = {name: getattr(model, f"{name}_") for name in names}
        arrays["dual_coef"] = model._dual_coef
        vectors = model.support_vectors_
        if not sp.issparse(vectors):
            return {**arrays, "support_vectors": vectors}
        index = _index_type(vectors.shape[1], vectors.nnz)
        return {
            **arrays,
            "vectors_data": vectors.data,
            "vectors_indices": vectors.indices.astype(index),
            "vectors_indptr": vectors.indptr.astype(index),
        }

    def shapes(self, model: SVC, header: Mapping[str, Any]) -> Shapes:
        k, d, m, classes = len(model._contenders), header["n_features_in"], header["n_support"], model.classes_.size
        kind, stored = header["vectors"]["type"], header["vectors"]["stored"]
        if kind not in ("<f4", "<f8"):
            raise expected("vectors of the type <f4 or <f8", kind)
        shapes: Shapes = {
            "support": ("<i4", (m,)),
            "n_support": ("<i4", (classes,)),
            "dual_coef": ("<f8", (classes - 1 if model._in_pairs else k, m)),
            "intercept": ("<f8", (k,)),
            "class_weight": ("<f8", (classes,)),
            "n_iter": ("<i4", (k,)),
        }
        if stored is None:
            return {**shapes, "support_vectors": (kind, (0 if header["kernel"]["name"] == "precomputed" else m, d))}
        index = _index_type(d, stored)
        return {
            **shapes,
            "vectors_data": (kind, (stored,)),
            "vectors_indices": (index, (stored,)),
            "vectors_indptr": (index, (m + 1,)),
        }

    def restore(self, model: SVC, header: Mapping[str, Any], arrays: Arrays) -> None:
        name, shape = header["kernel"]["name"], tuple(header["shape_fit"])
        if name not in KERNELS:
            raise expected(f"one of the kernels {', '.join(KERNELS)}", name)
        if header["vectors"]["stored"] is not None:
            parts = tuple(arrays.pop(f"vectors_{part}") for part in ("data", "indices", "indptr"))
            model.support_vectors_ = _rows(parts, (header["n_support"], header["n_features_in"]))
        model._dual_coef = arrays.pop("dual_coef")
        super().restore(model, header, arrays)
        of_class, which = model.n_support_, model.support_
        if (of_class < 0).any() or of_class.sum() != which.size:
            raise Wrong(f"the classes have {of_class.tolist()} support vectors, which are not {which.size} in all")
        if len(shape) != 2 or (which.size and not (which.min() >= 0 and which.max() < shape[0])):
            raise Wrong(f"the support vectors are not among the examples, which have the shape {shape}")
        model.shape_fit_ = shape
        model._set_kernel(made("kernel", name, KERNELS[name], header["kernel"]["fields"]))


LAYOUTS: dict[str, Layout] = {layout.estimator.__name__: layout for layout in (LinearLayout(), KernelLayout())}


def _index_type(d: int, stored: int) -> str:
    return "<i4" if max(d, stored) < 2**31 else "<i8"


def _rows(parts: tuple[NDArray[Any], ...], shape: tuple[int, int]) -> Any:
    try:
        rows = sp.csr_array(parts, shape=shape)
        as_matrix(rows)  # which looks whether it points outside itself
    except (TypeError, ValueError) as error:
        raise Wrong(f"the support vectors are not a sparse matrix ({error})") from error
    return rows
