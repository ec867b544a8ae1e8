"""All experiments, in the order of the papers."""

from __future__ import annotations

from benchmarks.papers.frame import Experiment
from benchmarks.papers.hybrid_figures import HybridFigures
from benchmarks.papers.pegasos_iterations import PegasosIterations
from benchmarks.papers.simba_figure_1 import SimbaFigure1

EXPERIMENTS: tuple[Experiment, ...] = (
    SimbaFigure1(),
    PegasosIterations(),
    HybridFigures(),
)
