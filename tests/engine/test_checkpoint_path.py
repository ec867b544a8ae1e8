"""A checkpoint that cannot be written is refused before the work, not after it."""

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
