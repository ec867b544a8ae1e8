"""Warnings about a fit that returned a model, but not in the way that the user may expect."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin.estimators.model_table import ModelTable

MOST_NAMES = 5  # maximum number of binary problems that a warning names; it counts the others
NEAR_OPTIMUM = 0.05  # up to this relative gap, a longer fit is not advised: it would hardly change the predictions


def warn_unless_converged(models: ModelTable, names: Sequence[str], max_iter: int | None) -> None:
    """Warn, once for all binary problems, if `max_iter` ended a run before the gap reached `tol`.

    Parameters
    ----------
    models : ModelTable
        The models of all binary problems.
    names : sequence of str
        The name of each binary problem, e.g. "3 against 5".
    max_iter : int or None
        The limit that the user gave; None means the solver's own limit.
    """
    short = np.flatnonzero(~np.isnan(models.missed_tol)).tolist()
    if not short:
        return
    proofs = models.certificates
    worst = max(short, key=lambda k: proofs[k].relative_gap if proofs[k] else math.inf)
    which = f"{len(short)} of {len(models)} binary problems" if len(models) > 1 else "The fit"
    loosest = f" (for the loosest, {names[worst]})" if len(models) > 1 else ""
    limit = "the default limit of iterations" if max_iter is None else f"max_iter={max_iter}"
    tol = f"{models.missed_tol[worst]:g}"
    warnings.warn(
        f"{which} stopped at {limit}, before the relative duality gap came within tol={tol}{loosest}: "
        f"{proofs[worst]}. Increase max_iter, scale the features (for instance with "
        "sklearn.preprocessing.StandardScaler), or accept this model with a larger tol.",
        ConvergenceWarning,
        stacklevel=2,
    )


def warn_of_one_class(models: ModelTable, one_sided: Sequence[str], slack: float | None) -> None:
    """Warn if a model predicts the same class for all of its training samples.

    Parameters
    ----------
    models : ModelTable
        The models of all binary problems.
    one_sided : sequence of str
        The names of the models that do so, e.g. "3 against 5"; for a single model, the class.
    slack : float or None
        The slack that the user gave; None if the model was fitted with C.
    """
    if not one_sided:
        return
    which = (
        f"{len(one_sided)} of {len(models)} binary models predict the same class for all of their training samples "
        f"(the first: {one_sided[0]})"
        if len(models) > 1
        else f"The model predicts the same class, {one_sided[0]}, for all training samples"
    )
    changes = ["a larger C" if slack is None else f"a slack below {slack:g}" if slack > 0 else "a slack above 0"]
    if any(not proof.relative_gap <= NEAR_OPTIMUM for proof in models.certificates):
        changes.append("a longer fit")
    changes.append("class_weight='balanced' if one class is rare")
    warnings.warn(f"{which}. Try {', or '.join(changes)}.", UserWarning, stacklevel=2)


def warn_of_too_little_slack(models: ModelTable, names: Sequence[str], slack: float | None) -> None:
    """Warn if no model has a slack as small as the given one, so that the model has the smallest possible slack.

    Parameters
    ----------
    models : ModelTable
        The models of all binary problems.
    names : sequence of str
        The name of each binary problem, e.g. "3 against 5".
    slack : float or None
        The slack that the user gave; None if the model was fitted with C.
    """
    more = [] if slack is None else np.flatnonzero(models.slack > slack).tolist()
    if not more or slack is None:
        return
    which = f"{len(more)} of {len(models)} binary problems (the first: {names[more[0]]})" if len(models) > 1 else "it"
    needs = "the classes overlap: no model separates them, and" if slack == 0 else "the classes overlap so much that"
    warnings.warn(
        f"slack={slack:g} is less than any model can have on this data: {needs} {which} was fitted with the smallest "
        f"possible slack, {models.slack[more[0]]:.3g}. Smaller values give the same model; give a larger slack.",
        UserWarning,
        stacklevel=2,
    )


def warn_of_an_early_end(names: Sequence[str], problems: int, stopped: str, what: str) -> None:
    """Warn if binary problems have no final model because the fit was stopped.

    Parameters
    ----------
    names : sequence of str
        The names of the problems without a final model. If it is empty, there is no warning.
    problems : int
        The number of all binary problems.
    stopped : str
        What stopped the fit: "interrupted", "max_time" or "callback".
    what : str
        What these problems have instead of a final model.
    """
    if not names:
        return
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    reasons = {
        "interrupted": "the fit was interrupted",
        "max_time": "max_time was up",
        "callback": "a callback stopped it",
    }
    warnings.warn(
        f"{reasons[stopped]}: {len(names)} of {problems} binary problems have {what} "
        f"({', '.join(names[:MOST_NAMES])}{more}); with more time the model would be better",
        ConvergenceWarning,
        stacklevel=2,
    )


def warn_of_a_cold_start(reason: str) -> None:
    """Warn that `warm_start=True` had no effect."""
    warnings.warn(
        f"warm_start=True, but this fit starts from scratch: {reason}. The result is equally good, but the fit takes "
        "longer.",
        UserWarning,
        stacklevel=2,
    )
