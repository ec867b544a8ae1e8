"""Validation of arguments: plain arrays and CSR matrices directly, anything else by scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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

PLAIN = (np.ndarray, csr_matrix, csr_array)  # types that scikit-learn accepts without conversion
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
SELECTED_BYTES = 1 << 24  # bytes of rows copied at a time for predictions: some MB, like a block of a store
LARGEST_SHARE_OF_CLASSES = 0.5  # maximum classes per sample; beyond, scikit-learn warns of a regression target


def training_data(estimator: Any, X: Any, y: Any, *, reset: bool = True, **readable: Any) -> tuple[Any, NDArray[Any]]:
    """Validate X and y of a fit, except for NaN and infinity in X; `readable` is passed on to `validate_data`.

    Arrays and CSR matrices of floats with integer or string labels need no conversion by scikit-learn. Without `reset`,
    X must have the same features as in an earlier call.
    """
    if type(X) is np.ndarray and not X.flags.aligned:
        X = X.copy()  # an array received over a network, such as a result of Dask, may be misaligned
    if reset and _plain_rows(X) and _plain_labels(y) and X.shape[0] == y.size:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
        return X, y
    if lies_elsewhere(X):
        X = rows_elsewhere(estimator, X, reset=reset)
        y = validated_labels(estimator, y)
        if X.shape[0] != y.size:
            raise ValueError(f"X has {X.shape[0]:,} rows, but y has {y.size:,} labels; give one label for each row")
        return X, y
    X, y = validated(estimator, X, y, reset=reset, **readable)
    return X, y


def validated(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Validate X, or X and y, by `validate_data` of scikit-learn with these options."""
    with _explained_errors(X):
        return validate_data(estimator, X, *y, **options)


def validated_labels(estimator: Any, y: Any) -> NDArray[Any]:
    """Validate the labels alone."""
    with _explained_errors():
        return np.asarray(_check_y(y, estimator=estimator))


@contextmanager
def _explained_errors(X: Any = None) -> Iterator[None]:
    """Say which columns of X hold text, or that a label is missing, where scikit-learn does not."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith("could not convert string to float"):
            kinds = getattr(X, "dtypes", {})
            named = kinds.items() if hasattr(kinds, "items") else ()  # of pandas; other libraries have a list
            text = ", ".join(repr(name) for name, kind in named if getattr(kind, "kind", "O") not in "biuf")
            where = f" in the columns {text}" if text else ""
            raise ValueError(
                f"X holds text{where} ({error}); leave out columns that are not features, and encode other text as "
                "numbers, for example with OneHotEncoder of scikit-learn"
            ) from error
        if str(error) == "Input contains NaN":  # of X, scikit-learn would say "Input X contains NaN"
            raise ValueError("Input y contains NaN: leave out the samples without a label") from error
        raise


def rows_elsewhere(estimator: Any, X: Any, *, reset: bool = True) -> Matrix:
    """Return X of a fit, which is outside memory, as a Matrix with a ledger for this fit only."""
    matrix = as_matrix(X, thread_count(estimator.n_jobs)).fork()
    if not reset:
        _refuse_other_features(estimator, matrix)
    estimator.n_features_in_ = matrix.shape[1]
    keep_feature_names(estimator, matrix.feature_names, reset=reset)
    return matrix


def keep_feature_names(estimator: Any, names: Sequence[str] | None, *, reset: bool = True) -> None:
    """Set `feature_names_in_` to the column names of a store; without `reset`, compare them, as with data frames."""
    header = None
    if names is not None and reset:
        estimator.feature_names_in_ = np.array(names, dtype=object)
        return
    if names is not None:
        import pyarrow as pa  # available, because it has read the names

        header = pa.schema([(name, pa.null()) for name in names]).empty_table()
    _check_feature_names(estimator, header, reset=reset)


def rows_to_predict(estimator: Any, X: Any, dtype: Any = "numeric") -> Any:
    """Validate the rows that a fitted estimator predicts, in this data type, or in any float type for "numeric"."""
    fitted = vars(estimator)
    if "intercept_" not in fitted:
        check_is_fitted(estimator)
    known = "feature_names_in_" not in fitted and _plain_rows(X) and X.shape[1] == fitted["n_features_in_"]
    plain = known and (dtype == "numeric" or X.dtype == dtype)
    if plain and (_assumed_finite() or _finite_sum(X.data if issparse(X) else X)):
        return X
    return validated(estimator, X, accept_sparse="csr", dtype=dtype, reset=False)


def lies_elsewhere(X: Any) -> bool:
    """Whether X is a matrix outside memory, which is read in blocks as needed."""
    return type(X) not in PLAIN and (isinstance(X, (Matrix, RowsToPredict)) or is_source(X) or is_store(X))


class RowsToPredict:
    """Some rows of a matrix outside memory, or in a mapped file, which are read in blocks for predictions.

    Parameters
    ----------
    X : Matrix
        The matrix.
    rows : array of int
        The positions of the rows.
    """

    def __init__(self, X: Matrix, rows: Indices) -> None:
        self.X, self.rows = X, rows
        self.shape, self.feature_names = (rows.size, X.shape[1]), X.feature_names

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield all rows in blocks: the position of the first row of a block, and its rows."""
        n, d = self.X.shape
        entries = self.X.n_stored // max(n, 1) if self.X.sparse else d
        height = max(1, SELECTED_BYTES // max(entries * self.X.dtype.itemsize, 1))
        for start in range(0, self.rows.size, height):
            yield start, self.X[self.rows[start : start + height]]


def blocks_to_predict(estimator: Any, X: Any) -> Iterator[Any]:
    """Yield the rows that a fitted estimator predicts from a matrix outside memory, in blocks."""
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
    """Whether X is an array or CSR matrix of floats that scikit-learn would not convert, if its entries are finite.

    It must have rows and columns; it does not matter whether entries are stored or zero.
    """
    return type(X) in PLAIN and X.ndim == 2 and X.dtype in FLOATS and min(X.shape) > 0


def _plain_labels(y: Any) -> bool:
    """Whether y is an array of numbers or strings that scikit-learn would not convert."""
    plain = type(y) is np.ndarray and y.ndim == 1
    return plain and (y.dtype.kind in "biuU" or (y.dtype in FLOATS and _finite_sum(y)))


def _finite_sum(values: NDArray[Any]) -> bool:
    """Whether all values are certainly finite: a sum is not finite if a value is not, or if values are very large."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def _assumed_finite() -> bool:
    return bool(get_config()["assume_finite"])


def sample_weights(sample_weight: Any, X: Any) -> Vector:
    """Return the validated weight of each sample; 1 if the user gave no weights."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    return np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))


def classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return the classes, and the class of each sample as an index into them."""
    try:
        classes, label = np.unique(y, return_inverse=True)
    except TypeError as error:  # for example None among strings
        kinds = ", ".join(sorted({type(value).__name__ for value in y}))
        raise ValueError(f"y mixes labels of the types {kinds}; give labels of one type") from error
    # Whole numbers and strings are certainly classes, and scikit-learn's check would take as long as a small fit.
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
    """Refuse parameters that violate the constraints of the estimator; defaults need no check."""
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
    """Return the default of each parameter of an estimator class, with a new object in place of an invalid default."""
    defaults = {}
    for name, parameter in signature(estimator).parameters.items():
        defaults[name] = parameter.default
        try:
            validate_parameter_constraints(estimator._parameter_constraints, {name: parameter.default}, "")
        except InvalidParameterError:
            defaults[name] = object()
    return defaults


def distinct_numbers(name: str, values: Any, *, positive: bool) -> Vector:
    """Return the distinct values in ascending order; raise an error if there are none, or a value is out of range.

    Values must be positive, or at least 0 if `positive` is False.

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
