"""The Adult data set, which comes with the package, and the search for other data sets in local folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.libsvm import read_libsvm

_HERE = Path(__file__).resolve().parent


def load_adult() -> tuple[Any, NDArray[np.float64], Any, NDArray[np.float64]]:
    """Load the Adult data set: does a person earn more than 50,000 dollars a year (+1) or not (-1)?

    Returns
    -------
    X_train : float32 csr_array of shape (32561, 123)
        The training samples: binary features, with about 14 ones per row.
    y_train : float64 array of shape (32561,)
        The training labels, +1 or -1.
    X_test : float32 csr_array of shape (16281, 123)
        The test samples.
    y_test : float64 array of shape (16281,)
        The test labels.

    Notes
    -----
    The data is by Barry Becker and Ronny Kohavi, from the UCI Machine Learning Repository, under CC BY 4.0; see
    `maxmargin/data/adult/README.md`.

    Examples
    --------
    >>> from maxmargin.data import load_adult
    >>> X_train, y_train, X_test, y_test = load_adult()
    >>> X_train.shape, X_test.shape
    ((32561, 123), (16281, 123))
    """
    train, test = (
        read_libsvm(_HERE / "adult" / f"{part}.libsvm.bz2", n_features=123, dtype=np.float32, zero_based=True)
        for part in ("train", "test")
    )
    return *train, *test


def find_dataset(name: str) -> Path:
    """Find a data set for benchmarks that does not come with the package.

    The folders are searched in this order: the folder in the environment variable MAXMARGIN_DATA, `shared/data` next to
    the project's checkout, and `shared/data` next to the current folder.

    Parameters
    ----------
    name : str
        A folder such as "news20", or a file in it such as "covtype/covtype.data.gz".

    Returns
    -------
    Path
        The existing folder or file.

    Raises
    ------
    FileNotFoundError
        If the data set is not found. The message lists the folders that were searched, and where to get the data set.

    Examples
    --------
    >>> from maxmargin.data import find_dataset
    >>> find_dataset("no such set")
    Traceback (most recent call last):
    ...
    FileNotFoundError: data set 'no such set' not found; looked in ...
    """
    given = os.environ.get("MAXMARGIN_DATA")
    checkout = _HERE.parents[2]
    folders = [Path(given)] if given else []
    folders += [folder.parent / "shared" / "data" for folder in dict.fromkeys([checkout, Path.cwd()])]
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    source = _SOURCES.get(name.partition("/")[0], "ask the author of the code that needs it")
    raise FileNotFoundError(
        f"data set {name!r} not found; looked in {', '.join(map(str, folders))}. To get it: {source}. Then put it in a "
        f"folder named {name.partition('/')[0]!r} and set MAXMARGIN_DATA to the parent of that folder."
    )


_SOURCES = {
    "20news": "sklearn.datasets.fetch_20newsgroups_vectorized()",
    "adult": "it comes with the package, use maxmargin.data.load_adult()",
    "covtype": "covtype.data.gz from the UCI Machine Learning Repository, or sklearn.datasets.fetch_covtype()",
    "mnist": "the four idx.gz files of MNIST, or sklearn.datasets.fetch_openml('mnist_784')",
    "news20": "news20.binary from the LIBSVM data page",
    "reuters": "Reuters-21578, money-fx against the rest, from the LaSVM data page",
    "small": "heart_scale, mushrooms, splice and german.numer_scale from the LIBSVM data page",
    "spam": "the public corpus of SpamAssassin, with one binary feature per word",
    "spambase": "spambase.data from the UCI Machine Learning Repository, or sklearn.datasets.fetch_openml('spambase')",
}
