"""What a model file holds for each estimator: fields of its header, and arrays whose shapes follow from the fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from maxmargin.data import as_matrix
from maxmargin.estimators.ball import EnclosingBall
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.kernel import SVC
from maxmargin.estimators.kernel_decisions import DecisionCache
from maxmargin.estimators.linear import LinearSVC
from maxmargin.estimators.persistence.model_fields import (
    Reader,
    Wrong,
    count,
    expected,
    labels,
    labels_to_json,
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
from maxmargin.kernels.functions import KERNELS
from maxmargin.problems import Certificate
from maxmargin.solvers import Learned

Arrays = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, tuple[int, ...]]]  # type and shape of the array of each name

ModelT = TypeVar("ModelT")
ClassifierT = TypeVar("ClassifierT", bound=MarginClassifier)

_LEARNED_VECTORS = ("w", "mean_w")
_LEARNED = record(t=count, b=number, mean_b=number, weights=number, scale=number, seen=number)


class Layout(Generic[ModelT]):
    """The layout that all estimators share.

    Attributes
    ----------
    whole : dict
        Attributes that are stored in the header as they are, under their names without the underscore.
    more : dict
        Other fields of the header.
    problem : dict
        Attributes that exist once per solved problem.
    """

    estimator: ClassVar[type[Any]]
    whole: ClassVar[dict[str, Reader]] = {
        "entries_read": count,
        "kernel_evaluations": count,
        "reads": table(count),
        "solver": text,
    }
    more: ClassVar[dict[str, Reader]] = {}
    problem: ClassVar[dict[str, Reader]] = {
        "certificate": lambda value: Certificate(
            **record(primal=number, dual=number, why_not=text, form=text, provided=text)(value)
        ),
        "stopped": text,
        "promise": table(number),
    }

    def problems(self, model: ModelT) -> int:
        """Return the number of problems that were solved."""
        return 1

    def of_all_problems(
        self, model: ModelT, collection: Callable[[Mapping[str, Any]], Any], values: Sequence[Any]
    ) -> Any:
        """Return the value of the only problem, or a collection of the values if there are several problems."""
        return values[0]

    def begin(self, model: ModelT, header: Mapping[str, Any]) -> None:
        """Set the attributes that determine the number of problems and the shapes of the arrays."""

    def describe(self, model: ModelT) -> dict[str, Any]:
        """Return the fields of a model."""
        return {name: to_json(getattr(model, f"{name}_")) for name in self.whole}

    def arrays(self, model: ModelT) -> Arrays:
        """Return the arrays of a model."""
        raise NotImplementedError

    def shapes(self, model: ModelT, header: Mapping[str, Any]) -> Shapes:
        """Return the types and shapes of the arrays that belong to these fields; `model` has parameters and classes."""
        raise NotImplementedError

    def restore(self, model: ModelT, header: Mapping[str, Any], arrays: Arrays) -> None:
        """Set the attributes from arrays of the types and shapes that :meth:`shapes` returns."""
        for name in self.whole:
            setattr(model, f"{name}_", header[name])
        for name, array in arrays.items():
            setattr(model, f"{name}_", array)


class ClassifierLayout(Layout[ClassifierT]):
    """The layout that all classifiers share: the classes, and attributes of the binary problems."""

    whole: ClassVar[dict[str, Reader]] = {**Layout.whole, "scale": number, "loss": text}
    more: ClassVar[dict[str, Reader]] = {"classes": labels}
    problem: ClassVar[dict[str, Reader]] = {"margin": number, "slack": number, "C": number, **Layout.problem}

    def problems(self, model: ClassifierT) -> int:
        return len(model._strategy.classes_by_model)

    def of_all_problems(
        self, model: ClassifierT, collection: Callable[[Mapping[str, Any]], Any], values: Sequence[Any]
    ) -> Any:
        return model._of_all_problems(collection, values)

    def begin(self, model: ClassifierT, header: Mapping[str, Any]) -> None:
        model.classes_ = header["classes"]

    def describe(self, model: ClassifierT) -> dict[str, Any]:
        return {"classes": labels_to_json(model.classes_), **super().describe(model)}


class LinearLayout(ClassifierLayout[LinearSVC]):
    """Coefficients, dual variables if they are kept, and the state from which an online solver continues."""

    estimator = LinearSVC
    whole: ClassVar[dict[str, Reader]] = {**ClassifierLayout.whole, "n_iter": count, "n_zero_rows": optional(count)}
    more: ClassVar[dict[str, Reader]] = {
        **ClassifierLayout.more,
        "n_rows": count,
        "n_support": optional(count),
        "learned": optional(list_of(optional(_LEARNED))),  # for each binary model, its fields that are numbers
    }

    def describe(self, model: LinearSVC) -> dict[str, Any]:
        return {
            "n_rows": model._n_rows,
            "n_support": model.support_.size if hasattr(model, "support_") else None,
            "learned": [_describe_learned(*of) for of in model._learned] if hasattr(model, "_learned") else None,
            **super().describe(model),
        }

    def arrays(self, model: LinearSVC) -> Arrays:
        dense = model.coef_.toarray() if sp.issparse(model.coef_) else model.coef_
        arrays = {"coef": dense, "intercept": model.intercept_}
        if hasattr(model, "support_"):
            arrays |= {"support": model.support_.astype("<i8"), "dual_coef": model.dual_coef_}
        if hasattr(model, "_learned"):
            nothing = np.zeros(model.n_features_in_)
            for name in _LEARNED_VECTORS:
                vectors = [nothing if learned is None else getattr(learned, name) for learned, _ in model._learned]
                arrays[f"learned_{name}"] = np.stack(vectors)
        return arrays

    def shapes(self, model: LinearSVC, header: Mapping[str, Any]) -> Shapes:
        k, d, m = len(model._strategy.classes_by_model), header["n_features_in"], header["n_support"]
        shapes: Shapes = {"coef": ("<f8", (k, d)), "intercept": ("<f8", (k,))}
        if m is not None:
            shapes |= {"support": ("<i8", (m,)), "dual_coef": ("<f8", (k, m))}
        if header["learned"] is not None:
            if len(header["learned"]) != k:
                raise Wrong(f"learned has {len(header['learned'])} items for {k} binary models")
            shapes |= {f"learned_{name}": ("<f8", (k, d)) for name in _LEARNED_VECTORS}
        return shapes

    def restore(self, model: LinearSVC, header: Mapping[str, Any], arrays: Arrays) -> None:
        vectors = {name: arrays.pop(f"learned_{name}") for name in _LEARNED_VECTORS if f"learned_{name}" in arrays}
        super().restore(model, header, arrays)
        if hasattr(model, "support_"):
            _check_support(model.support_, header["n_rows"])
        if header["learned"] is not None:
            model._learned = [
                _restore_learned(of, {name: rows[k] for name, rows in vectors.items()})
                for k, of in enumerate(header["learned"])
            ]
        model._n_rows = header["n_rows"]
        model._training_data = None


_KERNEL = record(name=text, fields=table(scalar))


def _kernel_to_json(kernel: Any) -> dict[str, Any]:
    return {"name": kernel.name, "fields": to_json(dataclasses.asdict(kernel))}


def _kernel_from_json(about: Mapping[str, Any]) -> Any:
    name = about["name"]
    if name not in KERNELS:
        raise expected(f"one of the kernels {', '.join(KERNELS)}", name)
    return made("kernel", name, KERNELS[name], about["fields"])


class StoredRows:
    """Rows in a file: one dense array, or the three arrays of a CSR matrix.

    Parameters
    ----------
    dense, sparse : str
        The name of the dense array, and the prefix of the names of the three CSR arrays.
    """

    reader = staticmethod(record(type=text, stored=optional(count)))  # `stored`: the entries of a sparse matrix

    def __init__(self, dense: str, sparse: str) -> None:
        self.dense, self.sparse = dense, sparse

    def describe(self, rows: Any) -> dict[str, Any]:
        """Return the header field that determines the shapes of the arrays."""
        return {"type": rows.dtype.newbyteorder("<").str, "stored": rows.nnz if sp.issparse(rows) else None}

    def arrays(self, rows: Any) -> Arrays:
        if not sp.issparse(rows):
            return {self.dense: rows}
        index = _index_type(rows.shape[1], rows.nnz)
        return {
            f"{self.sparse}_data": rows.data,
            f"{self.sparse}_indices": rows.indices.astype(index),
            f"{self.sparse}_indptr": rows.indptr.astype(index),
        }

    def shapes(self, about: Mapping[str, Any], shape: tuple[int, int]) -> Shapes:
        kind, stored = about["type"], about["stored"]
        if kind not in ("<f4", "<f8"):
            raise expected("vectors of the type <f4 or <f8", kind)
        if stored is None:
            return {self.dense: (kind, shape)}
        index = _index_type(shape[1], stored)
        return {
            f"{self.sparse}_data": (kind, (stored,)),
            f"{self.sparse}_indices": (index, (stored,)),
            f"{self.sparse}_indptr": (index, (shape[0] + 1,)),
        }

    def restore(self, arrays: Arrays, shape: tuple[int, int]) -> Any:
        """Restore the rows, and remove their arrays from `arrays`."""
        if self.dense in arrays:
            return arrays.pop(self.dense)
        parts = tuple(arrays.pop(f"{self.sparse}_{part}") for part in ("data", "indices", "indptr"))
        try:
            rows = sp.csr_array(parts, shape=shape)
            as_matrix(rows)  # raises if an index points outside the matrix
        except (TypeError, ValueError) as error:
            raise Wrong(f"the support vectors are not a sparse matrix ({error})") from error
        return rows


SUPPORT_VECTORS, CENTER_VECTORS = StoredRows("support_vectors", "vectors"), StoredRows("center_vectors", "center")


class KernelLayout(ClassifierLayout[SVC]):
    """The kernel, the support vectors and their coefficients."""

    estimator = SVC
    whole: ClassVar[dict[str, Reader]] = {
        **ClassifierLayout.whole,
        "kernel_evaluations_saved": count,
        "gamma": number,
        "fit_status": count,
    }
    more: ClassVar[dict[str, Reader]] = {
        **ClassifierLayout.more,
        "n_support": count,
        "shape_fit": list_of(count),
        "kernel": _KERNEL,
        "vectors": StoredRows.reader,
    }

    def describe(self, model: SVC) -> dict[str, Any]:
        return {
            "n_support": model.support_.size,
            "shape_fit": list(model.shape_fit_),
            "kernel": _kernel_to_json(model._kernel),
            "vectors": SUPPORT_VECTORS.describe(model.support_vectors_),
            **super().describe(model),
        }

    def arrays(self, model: SVC) -> Arrays:
        names = ("support", "n_support", "intercept", "class_weight", "n_iter")
        arrays = {name: getattr(model, f"{name}_") for name in names}
        arrays["dual_coef"] = model._dual_coef
        return arrays | SUPPORT_VECTORS.arrays(model.support_vectors_)

    def shapes(self, model: SVC, header: Mapping[str, Any]) -> Shapes:
        k, d, m, classes = (
            len(model._strategy.classes_by_model),
            header["n_features_in"],
            header["n_support"],
            model.classes_.size,
        )
        kept = 0 if header["kernel"]["name"] == "precomputed" else m
        return {
            "support": ("<i4", (m,)),
            "n_support": ("<i4", (classes,)),
            "dual_coef": ("<f8", (model._strategy.coefficient_rows, m)),
            "intercept": ("<f8", (k,)),
            "class_weight": ("<f8", (classes,)),
            "n_iter": ("<i4", (k,)),
            **SUPPORT_VECTORS.shapes(header["vectors"], (kept, d)),
        }

    def restore(self, model: SVC, header: Mapping[str, Any], arrays: Arrays) -> None:
        kernel, shape = _kernel_from_json(header["kernel"]), tuple(header["shape_fit"])
        model.support_vectors_ = SUPPORT_VECTORS.restore(arrays, (header["n_support"], header["n_features_in"]))
        model._dual_coef = arrays.pop("dual_coef")
        super().restore(model, header, arrays)
        of_class, which = model.n_support_, model.support_
        if (of_class < 0).any() or of_class.sum() != which.size:
            raise Wrong(f"the classes have {of_class.tolist()} support vectors, which are not {which.size} in all")
        if len(shape) != 2:
            raise expected("a shape_fit of two numbers", shape)
        _check_support(which, shape[0])
        model.shape_fit_, model._n_rows = shape, shape[0]
        model._kernel, model._decision_cache = kernel, DecisionCache()


class BallLayout(Layout[EnclosingBall]):
    """The ball, the rows whose weighted mean is its centre, and the rows that prove the lower bound of its radius."""

    estimator = EnclosingBall
    whole: ClassVar[dict[str, Reader]] = {
        **Layout.whole,
        "n_iter": count,
        "radius": number,
        "objective": number,
        "objective_bound": number,
        "offset": number,
        "gamma": number,
    }
    more: ClassVar[dict[str, Reader]] = {
        "n_support": count,
        "vectors": StoredRows.reader,
        "sq_center": number,
        "kernel": optional(_KERNEL),
        "center_vectors": optional(record(count=count, rows=StoredRows.reader)),
    }

    def describe(self, model: EnclosingBall) -> dict[str, Any]:
        in_kernel = model.kernel is not None
        return {
            "n_support": model.support_.size,
            "vectors": SUPPORT_VECTORS.describe(model.support_vectors_),
            "sq_center": model._sq_center,
            "kernel": _kernel_to_json(model._kernel) if in_kernel else None,
            "center_vectors": {"count": model._vectors.shape[0], "rows": CENTER_VECTORS.describe(model._vectors)}
            if in_kernel
            else None,
            **super().describe(model),
        }

    def arrays(self, model: EnclosingBall) -> Arrays:
        arrays = {"support": model.support_, "dual_coef": model.dual_coef_}
        arrays |= SUPPORT_VECTORS.arrays(model.support_vectors_)
        if model.kernel is None:
            return {**arrays, "center": model.center_}
        return {**arrays, "center_weights": model._weights, **CENTER_VECTORS.arrays(model._vectors)}

    def shapes(self, model: EnclosingBall, header: Mapping[str, Any]) -> Shapes:
        d, m, center = header["n_features_in"], header["n_support"], header["center_vectors"]
        if not (model.kernel is None) == (header["kernel"] is None) == (center is None):
            raise Wrong("the parameter kernel, the field kernel and the field center_vectors do not go together")
        shapes: Shapes = {
            "support": ("<i4", (m,)),
            "dual_coef": ("<f8", (1, m)),
            **SUPPORT_VECTORS.shapes(header["vectors"], (m, d)),
        }
        if center is None:
            return {**shapes, "center": ("<f8", (d,))}
        many = center["count"]
        return {
            **shapes,
            "center_weights": ("<f8", (many,)),
            **CENTER_VECTORS.shapes(center["rows"], (many, d)),
        }

    def restore(self, model: EnclosingBall, header: Mapping[str, Any], arrays: Arrays) -> None:
        d, center = header["n_features_in"], header["center_vectors"]
        model.support_vectors_ = SUPPORT_VECTORS.restore(arrays, (header["n_support"], d))
        model._sq_center = header["sq_center"]
        if center is not None:
            kernel, vectors = _kernel_from_json(header["kernel"]), CENTER_VECTORS.restore(arrays, (center["count"], d))
            for name, value in model._center_in_kernel(kernel, vectors, arrays.pop("center_weights")).items():
                setattr(model, name, value)
        super().restore(model, header, arrays)


LAYOUTS: dict[str, Layout[Any]] = {
    layout.estimator.__name__: layout for layout in (LinearLayout(), KernelLayout(), BallLayout())
}


def _check_support(support: NDArray[Any], n_rows: int) -> None:
    if support.size and not (support.min() >= 0 and support.max() < n_rows):
        raise Wrong(f"the support vectors are not among the {n_rows} training samples")


def _describe_learned(learned: Learned | None, seen: float) -> dict[str, Any] | None:
    if learned is None:
        return None
    fields = {name: value for name, value in vars(learned).items() if name not in _LEARNED_VECTORS}
    return dict(to_json({**fields, "seen": seen}))


def _restore_learned(fields: dict[str, Any] | None, vectors: Mapping[str, Any]) -> tuple[Learned | None, float]:
    if fields is None:
        return None, 0.0
    numbers = {name: value for name, value in fields.items() if name != "seen"}
    return Learned(**numbers, **vectors), fields["seen"]


def _index_type(d: int, stored: int) -> str:
    return "<i4" if max(d, stored) < 2**31 else "<i8"
