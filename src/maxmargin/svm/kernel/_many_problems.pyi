from maxmargin.core.types import Indices, Vector
from maxmargin.kernels._row_sources import RowSource
from maxmargin.svm.kernel.many_problems import BinaryRanges, SampleTerms
from maxmargin.svm.many_problems import Targets

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
        targets: Targets,
        free_bias: bool,
        max_passes: int,
        least_steps: int,
        beta: Vector,
        table: Vector,
    ) -> None: ...
    def advance(self, max_entries: int, /) -> None: ...
    def finish(self, passes: int, /) -> None: ...
