"""The section about how to fit the model again: code, settings, versions."""

from __future__ import annotations

import dataclasses
import keyword
import math
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
import sklearn

from maxmargin import solvers
from maxmargin.display.report.html import Html, element, paragraph, section, table
from maxmargin.display.report.text import number_range, version
from maxmargin.estimators.base import MarginClassifier, decisive_parameters
from maxmargin.solvers import Solver

LONGEST_LINE = 40  # characters of arguments; of more, each is on a line of its own


def reproduction(model: MarginClassifier, commands: Sequence[str]) -> Html:
    """The section with the code that fits the model again, the commands that make the page, and all settings."""
    content = [_block(code(model))]
    if commands:
        content += [paragraph("To make this page again:"), _block("\n".join(commands))]
    if model.random_state is None:
        note = "random_state was not set: if the solver is randomised, training again gives a slightly different model."
        content.append(paragraph(note, class_="soft"))
    content.append(table("The fitted model", ("quantity", "value"), _fitted(model), class_="text"))
    every = [(name, Code().expression(value, name)) for name, value in model.get_params(deep=False).items()]
    listed = table("All parameters", ("parameter", "value"), every, class_="text")
    content.append(element("details", element("summary", f"All {len(every)} parameters"), listed))
    versions = {
        "maxmargin": version(),
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
    content.append(paragraph(", ".join(f"{name} {number}" for name, number in versions.items()), class_="soft"))
    return section("How to reproduce", *content)


def _block(text: str) -> Html:
    return element("pre", element("code", text), tabindex="0")


def _fitted(model: Any) -> list[tuple[str, str]]:
    """What the fit used and reached."""
    rows = [("solver", model.solver_), ("loss", model.loss_)]
    if np.isfinite(getattr(model, "gamma_", math.nan)):  # a precomputed kernel or a function has none
        rows.append(("gamma", number_range(model.gamma_)))
    return [
        *rows,
        ("C", number_range(model.C_)),
        ("slack", number_range(model.slack_)),
        ("margin", number_range(model.margin_)),
        ("scale of the rows", number_range(model.scale_)),
        ("passes or iterations (n_iter_)", number_range(model.n_iter_)),
    ]


def code(model: MarginClassifier) -> str:
    """Python code that fits the model again, with the parameters that are not defaults."""
    written = Code()
    defaults = type(model)().get_params(deep=False)
    arguments = [
        f"{name}={written.expression(value, name)}"
        for name, value in decisive_parameters(model).items()
        if Code().expression(value, name) != Code().expression(defaults[name], name)
    ]
    listed = ", ".join(arguments)
    if len(listed) > LONGEST_LINE:
        listed = "".join(f"\n    {argument}," for argument in arguments) + "\n"
    name = type(model).__name__
    module = "maxmargin.dask" if type(model).__module__.startswith("maxmargin.dask") else "maxmargin"
    imports = [f"from {module} import {name}", *written.imports]
    lines = [*imports, "", *written.comments, f"model = {name}({listed})", "model.fit(X, y)", "model.report(X, y)"]
    return "\n".join(lines)


@dataclass
class Code:
    """Values of parameters as Python code.

    Attributes
    ----------
    imports : list of str
        Lines that import what the code names.
    comments : list of str
        Lines about what the code names and the reader has to define.
    """

    imports: list[str] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)

    def expression(self, value: Any, parameter: str) -> str:
        """The value of a parameter as code; a function, or another object that has no code, as a name.

        >>> Code().expression({np.str_("a"): np.float64(2)}, "class_weight")
        "{'a': 2.0}"
        """
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f"float('{value}')"
        if isinstance(value, dict):
            items = (
                f"{self.expression(key, parameter)}: {self.expression(one, parameter)}" for key, one in value.items()
            )
            return f"{{{', '.join(items)}}}"
        if dataclasses.is_dataclass(type(value)) and isinstance(value, Solver):
            return self._solver(value, parameter)
        return self._placeholder(value, parameter)

    def _solver(self, solver: Any, parameter: str) -> str:
        """A solver with the hyper-parameters that are not defaults."""
        kind = type(solver).__name__
        home = "maxmargin.solvers" if getattr(solvers, kind, None) is type(solver) else type(solver).__module__
        self.imports.append(f"from {home} import {kind}")
        arguments = (
            f"{each.name}={self.expression(getattr(solver, each.name), each.name)}"
            for each in dataclasses.fields(solver)
            if each.init and getattr(solver, each.name) != each.default
        )
        return f"{kind}({', '.join(arguments)})"

    def _placeholder(self, value: Any, parameter: str) -> str:
        name = str(getattr(value, "__name__", parameter))
        if not name.isidentifier() or keyword.iskeyword(name):
            name = parameter
        self.comments.append(f"# Define {name} first: the {type(value).__name__} that was given as {parameter}.")
        return name
