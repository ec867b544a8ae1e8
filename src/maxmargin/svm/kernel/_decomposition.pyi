from maxmargin.core.types import Vector

def measure(
    y: Vector, f: Vector, b: float, alpha: Vector, upper: Vector, short: Vector, pull: Vector
) -> tuple[float, float, float]: ...
