from typing import Any

from numpy.typing import NDArray

def exp_of_negative(values: NDArray[Any]) -> None: ...
def sparse_products(
    x: NDArray[Any],
    x_where: NDArray[Any],
    x_ends: NDArray[Any],
    z: NDArray[Any],
    z_where: NDArray[Any],
    z_ends: NDArray[Any],
    numbers: NDArray[Any],
    width: int,
    add: bool,
    out: NDArray[Any],
) -> None: ...
