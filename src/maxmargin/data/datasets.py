"""Data sets: Adult, which comes with the package, and the search for others in local folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.data.libsvm import read_libsvm

_HERE = Path(__file__).resolve().parent


def load_adult() -> tuple[Any, NDArray[np.float64], Any, NDArray[np.float64]]:
    """Load the Adult data: does a person earn more than 50,000 dollars a year (+1) or not (-1)?

    Returns
    -------
    X_train : float32 csr_array of shape (32561, 123)
        Binary features, about 14 ones a row.
    y_train : float64 array of +1 and -1
    X_test : float32 csr_array of shape (16281, 123)
    y_test : float64 array of +1 and -1

    Notes
    -----
    By Barry Becker and Ronny Kohavi, from the UCI Machine Learning Repository, under CC BY 4.0; see
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
    """Find a data set that does not come with the package, for benchmarks.

    Looks in the folder that the environment variable MAXMARGIN_DATA names, then in `shared/data` beside the project's
    checkout, then in `shared/data` beside the current folder.

    Parameters
    ----------
    name : str
        A folder such as "news20", or a file in it such as "covtype/covtype.data.gz".

    Returns
    -------
    Path
        The folder or file, which exists.

    Raises
    ------
    FileNotFoundError
        If it is not found: the message lists the folders searched, and says where to get the data set.

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
    source = _SOURCES.get(name.partition("/")[0], "ask whoever wrote the code that needs it")
    raise FileNotFoundError(
        f"data set {name!r} not found; looked in {', '.join(map(str, folders))}. To get it: {source}. Then put it in a "
        f"folder named {name.partition('/')[0]!r} and set MAXMARGIN_DATA to the folder that holds that one."
    )


_SOURCES = {
    "20news": "sklearn.datasets.fetch_20newsgroups_vectorized()",
    "adult": "it comes with the package, use maxmargin.data.load_adult()",
    "covtype": "covtype.data.gz from the UCI Machine Learning Repository, or sklearn.datasets.fetch_covtype()",
    "mnist": "the four idx.gz files of MNIST, or sklearn.datasets.fetch_openml('mnist_784')",
    "news20": "news20.binary from the LIBSVM data page",
    "reuters": "Reuters-21578, money-fx against the rest, from the LaSVM data page",
    "small": "heart_scale, mushrooms, splice and german.numer_scale from the LIBSVM data page",
    "spam": "the public corpus of SpamAssassin, one binary feature a word",
    "spambase": "spambase.data from the UCI Machine Learning Repository, or sklearn.datasets.fetch_openml('spambase')",
}
