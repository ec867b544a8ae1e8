from maxmargin.core.types import Indices, Vector

def pour_below(
    y: Vector, f: Vector, s: Vector, volume: float, highest: float, points: Indices
) -> tuple[int, float]: ...
