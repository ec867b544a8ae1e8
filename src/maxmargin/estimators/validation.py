"""Validation of what users give: plain arrays and CSR matrices at once, anything else as scikit-learn does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn import get_config
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_sample_weight,
    _check_y,
    check_is_fitted,
    validate_data,
)

from maxmargin.core import Matrix
from maxmargin.core.matrix import refuse_not_finite
from maxmargin.core.source import is_source
from maxmargin.core.threads import thread_count
from maxmargin.core.types import Indices, Vector
from maxmargin.data.matrices import as_matrix
from maxmargin.data.stores import is_store

PLAIN = (np.ndarray, csr_matrix, csr_array)  # types whose objects scikit-learn would take as they are
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
SELECTED_BYTES = 1 << 24  # of rows that are copied at a time to predict: as in a block of a store, some MB
LARGEST_SHARE_OF_CLASSES = 0.5  # classes as a share of the samples; beyond, scikit-learn warns of a regression


def training_data(estimator: Any, X: Any, y: Any, *, reset: bool = True, **readable: Any) -> tuple[Any, NDArray[Any]]:
    """X and y of a fit, validated but for NaN and infinity in X; `readable` is what `validate_data` is given.

    Arrays and CSR matrices of floats with whole numbers or strings for labels have nothing that scikit-learn would have
    to convert. Without `reset`, X must have the features of an earlier call.
    """
    if type(X) is np.ndarray and not X.flags.aligned:
        X = X.copy()  # what has come over a network, as a result of Dask, may begin where no number can
    if reset and _plain_rows(X) and _plain_labels(y) and X.shape[0] == y.size:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    if lies_elsewhere(X):
        X = rows_elsewhere(estimator, X, reset=reset)
        y = _check_y(y, estimator=estimator)
        if X.shape[0] != y.size:
            raise ValueError(f"X has {X.shape[0]:,} rows, but y has {y.size:,} labels; give a label for each row")
        return X, y
    X, y = validate_data(estimator, X, y, reset=reset, **readable)
    return X, y


def rows_elsewhere(estimator: Any, X: Any, *, reset: bool = True) -> Matrix:
    """X of a fit that lies elsewhere, as a Matrix with a ledger for this fit alone."""
    matrix = as_matrix(X, thread_count(estimator.n_jobs)).fork()
    if not reset:
        _refuse_other_features(estimator, matrix)
    estimator.n_features_in_ = matrix.shape[1]
    keep_feature_names(estimator, matrix.feature_names, reset=reset)
    return matrix


def keep_feature_names(estimator: Any, names: Sequence[str] | None, *, reset: bool = True) -> None:
    """Set `feature_names_in_` to the names of a store's columns; without `reset` compare them, as with data frames."""
    header = None
    if names is not None:
        import pyarrow as pa  # which has read the names

        header = pa.schema([(name, pa.null()) for name in names]).empty_table()
    _check_feature_names(estimator, header, reset=reset)


def rows_to_predict(estimator: Any, X: Any, dtype: Any = "numeric") -> Any:
    """The rows that a fitted estimator is asked about, validated; in this data type, or any of floats for "numeric"."""
    fitted = vars(estimator)
    if "intercept_" not in fitted:
        check_is_fitted(estimator)
    known = "feature_names_in_" not in fitted and _plain_rows(X) and X.shape[1] == fitted["n_features_in_"]
    plain = known and (dtype == "numeric" or X.dtype == dtype)
    if plain and (_assumed_finite() or _finite_sum(X.data if issparse(X) else X)):
        return X
    return validate_data(estimator, X, accept_sparse="csr", dtype=dtype, reset=False)


def lies_elsewhere(X: Any) -> bool:
    """Whether X is a matrix that lies elsewhere, which is read in blocks as far as it is needed."""
    return type(X) not in PLAIN and (isinstance(X, (Matrix, RowsToPredict)) or is_source(X) or is_store(X))


class RowsToPredict:
    """Some rows of a matrix that lies elsewhere, or in a mapped file, which are read in blocks to predict.

    Parameters
    ----------
    X : Matrix
    rows : array of int
        Which of its rows.
    """

    def __init__(self, X: Matrix, rows: Indices) -> None:
        self.X, self.rows = X, rows
        self.shape, self.feature_names = (rows.size, X.shape[1]), X.feature_names

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """All rows, a block at a time: the position of the first one, and the rows."""
        n, d = self.X.shape
        entries = self.X.n_stored // max(n, 1) if self.X.sparse else d
        height = max(1, SELECTED_BYTES // max(entries * self.X.dtype.itemsize, 1))
        for start in range(0, self.rows.size, height):
            yield start, self.X[self.rows[start : start + height]]


def blocks_to_predict(estimator: Any, X: Any) -> Iterator[Any]:
    """The rows of a matrix that lies elsewhere, which a fitted estimator is asked about, a block at a time."""
    check_is_fitted(estimator)
    if not isinstance(X, RowsToPredict):
        X = as_matrix(X)
    _refuse_other_features(estimator, X)
    keep_feature_names(estimator, X.feature_names, reset=False)
    for first, rows in X.blocks():
        if not (_assumed_finite() or _finite_sum(rows.data if issparse(rows) else rows)):
            refuse_not_finite(as_matrix(rows), first_row=first)
        yield rows


def _refuse_other_features(estimator: Any, X: Matrix | RowsToPredict) -> None:
    if X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
            "features as input"
        )


def _plain_rows(X: Any) -> bool:
    """Whether X is an array or a CSR matrix of floats that scikit-learn would take as it is, if its entries are finite.

    It has rows and columns; whether entries are stored, or are zero, does not matter.
    """
    return type(X) in PLAIN and X.ndim == 2 and X.dtype in FLOATS and min(X.shape) > 0


def _plain_labels(y: Any) -> bool:
    """Whether y is an array of numbers or strings that scikit-learn would take as it is."""
    plain = type(y) is np.ndarray and y.ndim == 1
    return plain and (y.dtype.kind in "biuU" or (y.dtype in FLOATS and _finite_sum(y)))


def _finite_sum(values: NDArray[Any]) -> bool:
    """Whether all values are finite, for sure: a sum is not finite if one of them is not, or if they are very large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def _assumed_finite() -> bool:
    return bool(get_config()["assume_finite"])


def sample_weights(sample_weight: Any, X: Any) -> Vector:
    """The weight of each sample: 1, or what the user gave, validated."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """The classes, and the class of each sample by its index among them."""
    try:
        classes, label = np.unique(y, return_inverse=True)
    except TypeError as error:  # None among strings, say
        kinds = ", ".join(sorted({type(value).__name__ for value in y}))
        raise ValueError(f"y mixes labels of the types {kinds}; give labels of one type") from error
    # Whole numbers and strings are classes beyond doubt, and the check of scikit-learn takes as long as a small fit.
    kind = classes.dtype.kind
    whole = kind in "biuU" or (kind == "f" and bool((classes == np.floor(classes)).all()))
    few = classes.size == 2 or classes.size < LARGEST_SHARE_OF_CLASSES * y.size
    if not (whole and few):
        check_classification_targets(y)
    if classes.size < 2:
        only = classes.tolist()[0]
        raise ValueError(f"y holds one class only, {only!r}; a classifier needs at least two classes")
    return classes, label


def check_parameters(estimator: Any) -> None:
    """Refuse parameters that do not satisfy the constraints of the estimator; defaults are known to."""
    kind: Any = type(estimator)
    defaults = _valid_defaults(kind)
    own = vars(estimator)
    changed = {
        name: getattr(estimator, name)
        for name, default in defaults.items()
        if name not in own or own[name] is not default
    }
    validate_parameter_constraints(estimator._parameter_constraints, changed, caller_name=type(estimator).__name__)


@cache
def _valid_defaults(estimator: Any) -> Mapping[str, Any]:
    """The default of each parameter of a class of estimators; a new object in place of one that is not valid."""
    defaults = {}
    for name, parameter in signature(estimator).parameters.items():
        defaults[name] = parameter.default
        try:
            validate_parameter_constraints(estimator._parameter_constraints, {name: parameter.default}, "")
        except InvalidParameterError:
            defaults[name] = object()
    return defaults


def distinct_numbers(name: str, values: Any, *, positive: bool) -> Vector:
    """Distinct numbers in ascending order, positive or of at least 0; an error if there is none or another one.

    Examples
    --------
    >>> from maxmargin.estimators.validation import distinct_numbers
    >>> distinct_numbers("Cs", [10, 1, 10], positive=True)
    array([ 1., 10.])
    """
    try:
        found = np.unique(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers; got {values!r}") from error
    wrong = found <= 0 if positive else found < 0
    if not found.size or not np.isfinite(found).all() or wrong.any():
        what = "positive numbers" if positive else "numbers of at least 0"
        raise ValueError(f"{name} must hold one or more finite {what}; got {values!r}")
    return found
