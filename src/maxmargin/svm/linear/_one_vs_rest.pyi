from maxmargin.core.types import Indices, Vector
from maxmargin.svm.linear.one_vs_rest import OneVsRestProblems, SharedSamples
from maxmargin.svm.many_problems import Targets

LANES: int

class NewtonRun:
    position: int
    done: bool
    def __init__(
        self,
        samples: SharedSamples,
        problems: OneVsRestProblems,
        which: Indices,
        targets: Targets,
        smooth: bool,
        bias: bool,
        bias_feature: float,
        max_iter: int,
        coef: Vector,
        alpha: Vector,
        table: Vector,
    ) -> None: ...
    def advance(self, max_operations: int, /) -> None: ...
    def finish(self, iterations: int, /) -> None: ...
