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
    sigma_b: float,
    clearly_out: float,
    w_0: Vector | None = None,
    b_0: float = 0.0,
    alpha_0: Vector | None = None,
) -> tuple[int, float, float, float]: ...
