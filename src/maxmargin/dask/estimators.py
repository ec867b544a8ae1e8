"""The estimators on a Dask cluster, which follow the conventions of scikit-learn and of other Dask libraries."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Self, TypeVar

import dask
import numpy as np
from dask.base import is_dask_collection
from distributed import Client
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from maxmargin import estimators as local
from maxmargin.core.optional import import_optional
from maxmargin.core.types import Indices, Vector
from maxmargin.dask.client import client_of
from maxmargin.dask.inputs import gathered, partitions_of, place
from maxmargin.dask.rows import ClusterRows
from maxmargin.dask.training_rows import ClusterFeatureRows
from maxmargin.estimators.base import MarginClassifier
from maxmargin.estimators.linear import weak_reference
from maxmargin.estimators.training_rows import TrainingRows
from maxmargin.estimators.validation import RowsToPredict, keep_feature_names, training_data, validated_labels

EstimatorT = TypeVar("EstimatorT", bound="type[OnCluster]")


def with_client(cls: EstimatorT) -> EstimatorT:
    """Give a subclass of an estimator all parameters of its parent and the parameter `client`."""
    initialise: Any = getattr(cls, "__init__")  # noqa: B009, the constructor of the estimator without a cluster

    @wraps(initialise)
    def __init__(self: Any, *args: Any, client: Client | None = None, **parameters: Any) -> None:
        initialise(self, *args, **parameters)
        self.client = client

    signature = inspect.signature(initialise)
    more = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
    __init__.__signature__ = signature.replace(parameters=[*signature.parameters.values(), more])  # type: ignore[attr-defined]
    cls.__init__ = __init__  # type: ignore[method-assign]
    cls._parameter_constraints = {**cls._parameter_constraints, "client": "no_validation"}
    return cls


class OnCluster(BaseEstimator):  # type: ignore[misc]
    """Base class of the estimators on a cluster: data on the workers, and lazy predictions."""

    client: Client | None
    n_features_in_: int
    classes_: NDArray[Any]

    if TYPE_CHECKING:  # the constructor that `with_client` makes

        def __init__(self, *, client: Client | None = None, **parameters: Any) -> None: ...

    def to_local(self) -> Any:
        """Return the fitted model as an ordinary estimator of `maxmargin` with the same parameters.

        Returns
        -------
        estimator
            The estimator of the same name in `maxmargin`. It needs no cluster.
        """
        check_is_fitted(self)
        kind = self._local_class()
        model = kind.__new__(kind)
        vars(model).update({name: value for name, value in self.__getstate__().items() if name != "client"})
        return model

    @classmethod
    def _local_class(cls) -> Any:
        """Return the estimator class of the same name for one machine."""
        return next(parent for parent in cls.__mro__ if parent.__module__.startswith("maxmargin.estimators"))

    def __sklearn_clone__(self) -> Any:
        """Clone the estimator; the clone uses the same client, which cannot be copied."""
        given, kind = self.get_params(deep=False), type(self)
        return kind(**{name: value if name == "client" else clone(value, safe=False) for name, value in given.items()})

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "client": None}

    def _on_workers(self, X: Any, y: Any, sample_weight: Any) -> tuple[ClusterRows, NDArray[Any], Any]:
        """Place X on the workers, and y and the weights in this process; data placed by a search stays where it is."""
        if isinstance(X, ClusterRows):
            rows, labels, weights = X.fork(), y, sample_weight
        else:
            client = client_of(self.client)
            parts = partitions_of(X, y, sample_weight, partial(training_data, self, **MarginClassifier._readable))
            if parts.y is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None; or give X as a list of "
                    "partitions (X, y)"
                )
            rows = place(client, parts.X, units_for=self._units(client))
            labels, weights = (
                None if values is None else gathered(client, values, rows.partition_rows, name, paired=parts.paired)
                for values, name in ((parts.y, "y"), (parts.weights, "sample_weight"))
            )
            labels = validated_labels(self, labels)
            if parts.checked:  # the pieces no longer have names
                rows.feature_names = getattr(self, "feature_names_in_", None)
        self.n_features_in_ = rows.shape[1]
        keep_feature_names(self, rows.feature_names)
        return rows, labels, weights

    def _began(self, X: ClusterRows) -> float:
        """Return the time at which `fit` was called, because `max_time` includes placing the data."""
        return X.units.began

    @contextmanager
    def _placed(self, X: Any, y: Any, sample_weight: Any) -> Iterator[tuple[ClusterRows, NDArray[Any], Any]]:
        """Context with the data of a fit, as `_on_workers` returns it; afterwards, newly placed data is removed."""
        began = time.perf_counter()
        data = self._on_workers(X, y, sample_weight)
        units = data[0].units
        units.began = began
        with nullcontext() if isinstance(X, ClusterRows) else units.until_released():
            yield data

    def _units(self, client: Client) -> int | None:
        """Return the number of units of rows; None means that it depends on the number of rows."""
        return None

    # Predictions

    def predict(self, X: Any) -> Any:
        """Predict the class of each row.

        Parameters
        ----------
        X : dask array or data frame, array or sparse matrix of shape (m, d)
            The samples.

        Returns
        -------
        array of shape (m,)
            The class labels. For dask data, a lazy dask array.
        """
        return self._by_blocks("predict", X)

    def decision_function(self, X: Any, **options: Any) -> Any:
        """Compute the decision values of each row.

        Parameters
        ----------
        X : dask array or data frame, array or sparse matrix of shape (m, d)
            The samples.
        **options
            Further arguments of `decision_function` of the estimator of the same name in `maxmargin`.

        Returns
        -------
        array
            The decision values. For dask data, a lazy dask array.
        """
        return self._by_blocks("decision_function", X, **options)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Compute the accuracy: the share of rows whose class is predicted correctly.

        Parameters
        ----------
        X : dask array or data frame, array or sparse matrix of shape (m, d)
            The samples.
        y : dask array or series, or array of shape (m,)
            The labels.
        sample_weight : like y, or None, default=None
            Weights of the samples.

        Returns
        -------
        float
            The accuracy. For dask data, a lazy number.
        """
        if not is_dask_collection(X):
            return super().score(X, y, sample_weight)
        import dask.array as da

        given = [self.predict(X), _as_array(y), _as_array(sample_weight)]
        if any(np.isnan(array.shape).any() for array in given if is_dask_collection(array)):  # sizes are not known yet
            return da.from_delayed(dask.delayed(_share_right)(*given), shape=(), dtype=np.float64)
        right = (given[0] == given[1]).astype(np.float64)
        return right.mean() if sample_weight is None else da.average(right, weights=given[2])

    def _by_blocks(self, method: str, X: Any, **options: Any) -> Any:
        check_is_fitted(self)
        if isinstance(X, ClusterRows):  # the rows of the fit, for which callbacks request predictions
            return X.apply(self.to_local(), method, np.arange(X.shape[0]))
        placed: Any = X.X if isinstance(X, RowsToPredict) else None
        if isinstance(placed, ClusterRows):
            return placed.apply(self.to_local(), method, X.rows)
        if not is_dask_collection(X):
            return getattr(super(), method)(X, **options)
        model = self.to_local().set_callbacks()  # callbacks may hold what cannot be sent, such as a terminal
        width, dtype = (0, self.classes_.dtype) if method == "predict" else (_width(model), np.dtype(np.float64))
        predict = partial(_predicted, getattr(model, method), width, dtype)
        if hasattr(X, "columns") and hasattr(X, "map_partitions"):
            parts = X.to_delayed()
            return _array_of([dask.delayed(predict)(part, **options) for part in parts], width, dtype)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                "as input"
            )
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        chunks = (X.chunks[0],) if not width else (X.chunks[0], (width,))
        drop, new = ([1], None) if not width else ([1], [1])
        return X.map_blocks(
            predict,
            drop_axis=drop,
            new_axis=new,
            chunks=chunks,
            dtype=dtype,
            meta=np.empty((0,) * len(chunks), dtype),
            **options,
        )


def _predicted(method: Callable[..., Any], width: int, dtype: np.dtype[Any], X: Any, **options: Any) -> NDArray[Any]:
    """Apply a method of a model to the rows of a partition, which may be empty."""
    if X.shape[0] == 0:
        return np.empty((0, width) if width else 0, dtype)
    return np.asarray(method(X, **options))


def _width(model: Any) -> int:
    """Return the number of columns of the decision values; 0 if they have only one dimension."""
    row = np.zeros((1, model.n_features_in_))
    with_names = hasattr(model, "feature_names_in_")
    if with_names:
        pandas = import_optional("pandas", "a prediction on a cluster with feature names")
        row = pandas.DataFrame(row, columns=model.feature_names_in_)
    values = model.decision_function(row)
    return 0 if values.ndim == 1 else int(values.shape[1])


def _array_of(parts: list[Any], width: int, dtype: np.dtype[Any]) -> Any:
    """Combine delayed results for partitions of unknown sizes into one dask array."""
    import dask.array as da

    shape = (np.nan,) if not width else (np.nan, width)
    return da.concatenate(
        [da.from_delayed(part, shape=shape, dtype=dtype) for part in parts], allow_unknown_chunksizes=True
    )


def _share_right(predicted: NDArray[Any], y: Any, sample_weight: Any) -> np.float64:
    """Compute the share of labels that were predicted correctly, from arrays in one place."""
    from sklearn.metrics import accuracy_score

    return np.float64(accuracy_score(y, predicted, sample_weight=sample_weight))


def with_known_sizes(X: Any, sizes: Sequence[int]) -> Any:
    """Convert a dask array or data frame, whose partitions have these sizes, to a dask array that can be sliced."""
    if hasattr(X, "to_dask_array"):
        return X.to_dask_array(lengths=list(sizes))
    X = X.copy()
    X._chunks = (tuple(sizes), *X.chunks[1:])
    return X


def _as_array(values: Any) -> Any:
    """Convert labels in a dask data frame, dask array, series or array to a dask array or an array."""
    if hasattr(values, "to_dask_array"):
        return values.to_dask_array()
    return values if values is None or is_dask_collection(values) else np.asarray(values)


class ClassifierOnCluster(OnCluster):
    """Base class of LinearSVC and SVC."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, checkpoint: Any = None) -> Self:
        """Fit the model on the workers.

        Parameters
        ----------
        X : dask array or data frame, list of partitions, path or paths, array or sparse matrix
            The samples. Partitions are futures, delayed objects, or paths that the workers open. If `y` is not given,
            each partition is a pair (X, y) or a triple (X, y, weights). Chunks of a dask array may be dense or CSR.
        y : dask array or series, list of partitions, array, str or None, default=None
            The labels, of any type. With paths, the name of the column that holds them; None means the last column.
        sample_weight : like y, or None, default=None
            Weights of the samples. A weight of 2 has the same effect as giving the row twice.
        checkpoint : str, path, Checkpoint or None, default=None
            As in :meth:`maxmargin.LinearSVC.fit`. If the scheduler was lost, the fit continues from the checkpoint with
            another client.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        with self._placed(X, y, sample_weight) as data:
            super().fit(*data, checkpoint)
        return self

    def _validated(self, X: Any, y: Any, sample_weight: Any) -> tuple[ClusterRows, NDArray[Any], Any]:
        return self._on_workers(X, y, sample_weight)

    def _for_samples(self, X: Any) -> Any:
        """Return a local estimator for the few samples of a search's first comparison, which are in this process."""
        if isinstance(X, ClusterRows):
            return self
        given = self.get_params(deep=False)
        return self._local_class()(**{name: value for name, value in given.items() if name != "client"})


@with_client
class LinearSVC(ClassifierOnCluster, local.LinearSVC):
    """:class:`maxmargin.LinearSVC` on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The client of the cluster. None uses the current client, or starts a new cluster on this machine.
    C, slack, loss, ...
        All other parameters as in :class:`maxmargin.LinearSVC`.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, checkpoint: Any = None) -> Self:
        super().fit(X, y, sample_weight, checkpoint)
        self._training_data = weak_reference(X)
        return self

    fit.__doc__ = ClassifierOnCluster.fit.__doc__

    def _some_of(self, X: Any, rows: Indices) -> Any:
        """Select rows of the training data; from dask data, as a dask array."""
        if not is_dask_collection(X):
            return super()._some_of(X, rows)
        return with_known_sizes(X, self._partition_rows)[rows]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_partition_rows"}

    def _training_rows(
        self, X: ClusterRows, label: Indices, weights: Vector, held_out: Indices, *, from_scratch: bool
    ) -> tuple[TrainingRows, None]:
        self._partition_rows = X.partition_rows
        return ClusterFeatureRows(X), None


class SearchOnCluster(OnCluster):
    """Base class of LinearSVCCV and SVCCV: folds and values are compared on samples that stay on the workers."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, checkpoint: Any = None) -> Self:
        """Compare all values on the workers, and fit the best one.

        Parameters
        ----------
        X, y, sample_weight
            As in the `fit` of :class:`maxmargin.dask.LinearSVC`.
        groups, checkpoint
            As in the `fit` of :class:`maxmargin.LinearSVCCV`.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        with self._placed(X, y, sample_weight) as data:
            super().fit(*data, groups, checkpoint)
        return self

    def to_local(self) -> Any:
        model = super().to_local()
        if self.refit:
            model.best_estimator_ = self.best_estimator_.to_local()
        return model


@with_client
class LinearSVCCV(SearchOnCluster, local.LinearSVCCV):
    """:class:`maxmargin.LinearSVCCV` on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The client of the cluster. None uses the current client, or starts a new cluster on this machine.
    Cs, slacks, cv, ...
        All other parameters as in :class:`maxmargin.LinearSVCCV`.
    """

    def _estimator(self) -> LinearSVC:
        return LinearSVC(**super()._estimator().get_params(deep=False), client=self.client)
