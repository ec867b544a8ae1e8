import numpy as np
from numpy.typing import NDArray

from maxmargin.core import Matrix
from maxmargin.core.types import Indices, Vector

def weigh(
    some: Indices | None, c: Vector, centre: Vector, upper: Vector, q: Vector, softness: float, smooth: bool, a: Vector
) -> Vector: ...
def look_along(
    some: Indices | None,
    along: Vector,
    s_b: float,
    y: Vector,
    c: Vector,
    a: Vector,
    centre: Vector,
    upper: Vector,
    q: Vector,
    softness: float,
    smooth: bool,
) -> tuple[float, float]: ...
def slope_along(
    some: Indices | None,
    along: Vector,
    t: float,
    c: Vector,
    centre: Vector,
    upper: Vector,
    q: Vector,
    softness: float,
    smooth: bool,
) -> float: ...
def move_along(
    some: Indices | None,
    along: Vector,
    t: float,
    y: Vector,
    c: Vector,
    a: Vector,
    centre: Vector,
    upper: Vector,
    q: Vector,
    softness: float,
    smooth: bool,
) -> int: ...
def dual_sums(
    c: Vector,
    a: Vector,
    y: Vector,
    centre: Vector,
    upper: Vector,
    q: Vector,
    softness: float,
    smooth: bool,
    known: NDArray[np.uint8],
    inside: NDArray[np.uint8],
) -> tuple[float, float, float, float, float, float, int, int, int]: ...
def change_inside(
    a: Vector, upper: Vector, q: Vector, smooth: bool, anew: bool, inside: NDArray[np.uint8]
) -> tuple[Indices, Vector]: ...
def add_dense_products(Z: Vector, sign: float, H: Vector) -> None: ...
def reach(
    c: Vector, centre: Vector, upper: Vector, q: Vector, softness: float, smooth: bool, norms: Vector
) -> Vector: ...
def add_outer_products(X: Matrix, rows: Indices, h: Vector, H: Vector) -> None: ...
