"""A checkpoint that cannot be written is refused before the work, not after it."""

import os
from pathlib import Path

import numpy as np
import pytest

from maxmargin import LinearSVC, RegularizedSVM, solve
from maxmargin.solvers import CheckpointError, Sdca


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    X, y = np.array([[1.0], [-1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    path = tmp_path / "nowhere" / "run.ckpt"
    with pytest.raises(CheckpointError, match=r"there is no folder .*nowhere; make it first"):
        LinearSVC().fit(X, y, checkpoint=path)
    with pytest.raises(CheckpointError, match="there is no folder"):
        solve(RegularizedSVM(X, y), Sdca(), checkpoint=path)


def test_a_folder_of_an_earlier_fit_may_lie_where_nobody_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of a fit are written into its own folder."""
    X, y = np.array([[1.0], [-1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
    path = tmp_path / "run.ckpt"
    path.mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda folder, mode: Path(folder) != tmp_path and access(folder, mode))
    assert LinearSVC().fit(X, y, checkpoint=path).score(X, y) == 1
    with pytest.raises(CheckpointError, match="no permission to write to the folder"):
        LinearSVC().fit(X, y, checkpoint=tmp_path / "another.ckpt")
