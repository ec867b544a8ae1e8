from typing import Any

import numpy as np
from numpy.typing import NDArray

class Progress:
    first: int
    last: int
    @property
    def lines(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def highest(self) -> int: ...
    @property
    def ordered(self) -> bool: ...
    @property
    def stopped(self) -> str: ...
    def __init__(self, first: int, last: int) -> None: ...
    def forget_rows(self) -> None: ...

def parse(
    block: bytes,
    start: int,
    progress: Progress,
    labels: NDArray[np.float64],
    ends: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[Any],
) -> int: ...
