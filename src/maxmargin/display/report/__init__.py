"""The report of a fitted model: one page of HTML that needs no network and no script.

`model_report` makes it from a model and samples. `summary`, `predictions`, `influence`, `training` and `reproduction`
write its parts, `page` puts them together.
"""

from maxmargin.display.report.model_report import ModelReport

__all__ = ["ModelReport"]
