"""All experiments, in the order of the table of verdicts."""

from __future__ import annotations

from benchmarks.papers.cost_at_fixed_error import CostAtFixedError
from benchmarks.papers.frame import Experiment
from benchmarks.papers.hybrid_figures import HybridFigures
from benchmarks.papers.pegasos_iterations import PegasosIterations
from benchmarks.papers.pegasos_seconds import PegasosSeconds
from benchmarks.papers.regime_map import RegimeMap
from benchmarks.papers.sbp_figure_1 import SbpFigure1
from benchmarks.papers.sbp_figure_2 import SbpFigure2
from benchmarks.papers.sbp_libsvm import SbpLibsvm
from benchmarks.papers.sbp_table_2 import SbpTable2
from benchmarks.papers.semidefinite import Semidefinite
from benchmarks.papers.simba_figure_1 import SimbaFigure1
from benchmarks.papers.theorems import Theorems

EXPERIMENTS: tuple[Experiment, ...] = (
    SimbaFigure1(),
    RegimeMap(),
    SbpFigure1(),
    SbpTable2(),
    SbpFigure2(),
    SbpLibsvm(),
    PegasosIterations(),
    PegasosSeconds(),
    HybridFigures(),
    Theorems(),
    CostAtFixedError(),
    Semidefinite(),
)
