from maxmargin.core import Matrix
from maxmargin.core.types import Indices, Vector

def visit(
    X: Matrix,
    first: int,
    order: Indices,
    y: Vector,
    upper: Vector,
    q: Vector,
    sq_norms: Vector,
    alpha: Vector,
    w: Vector,
    b: float,
    rho: float,
    sigma: float,
    clearly_out: float,
    primal_w: Vector | None,
    primal_b: float,
) -> tuple[int, float, float, float]: ...
