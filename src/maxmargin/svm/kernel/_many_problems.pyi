from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._row_sources import RowSource
from maxmargin.svm.kernel.many_problems import BinaryRanges, SampleTerms

class SmoRun:
    position: int
    evaluations: int
    done: bool
    def __init__(
        self,
        source: RowSource,
        ranges: BinaryRanges,
        which: Indices,
        samples: SampleTerms,
        free_bias: bool,
        tol: float,
        max_passes: int,
        least_steps: int,
        beta: Vector,
        table: Vector,
    ) -> None: ...
    def advance(self, max_entries: int, /) -> None: ...
    def finish(self, passes: int, /) -> None: ...
