from maxmargin.core.types import Vector

SAMPLES_PER_BLOCK: int

class RowSource: ...

class WholeMatrix(RowSource):
    def __init__(self, K: Vector) -> None: ...

class DenseSamples(RowSource):
    def __init__(
        self, samples: Vector, blocks: Vector, factor: float, shift: Vector, function: str, degree: int = 1
    ) -> None: ...
