"""Warnings about a fit that ended well enough to return a model, but not as the user may believe."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from maxmargin.estimators.model_table import ModelTable

MOST_NAMES = 5  # binary problems that a warning names; of more it gives the number
NEAR_OPTIMUM = 0.05  # relative gap up to which a longer fit would hardly change the predictions, and is not advised


def warn_unless_converged(models: ModelTable, names: Sequence[str], max_iter: int | None) -> None:
    """Warn, once for all binary problems, where `max_iter` ended a run before the gap came within `tol`.

    Parameters
    ----------
    models : ModelTable
    names : sequence of str
        What each binary problem tells apart, e.g. "3 against 5".
    max_iter : int or None
        As the user gave it; None: the limit of the solver itself.
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
    """Warn where a model predicts the same class for all of its training samples.

    Parameters
    ----------
    models : ModelTable
    one_sided : sequence of str
        Which of them do, e.g. "3 against 5"; of a single one, the class.
    slack : float or None
        The slack that the user gave; None: the model was fitted with C.
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
    changes.append("class_weight='balanced' where one class is rare")
    warnings.warn(f"{which}. Try {', or '.join(changes)}.", UserWarning, stacklevel=2)


def warn_of_too_little_slack(models: ModelTable, names: Sequence[str], slack: float | None) -> None:
    """Warn where no model has as little slack as the user asked for, so that the one with the least was taken.

    Parameters
    ----------
    models : ModelTable
    names : sequence of str
        What each binary problem tells apart, e.g. "3 against 5".
    slack : float or None
        The slack that the user gave; None: the model was fitted with C.
    """
    more = [] if slack is None else np.flatnonzero(models.slack > slack).tolist()
    if not more or slack is None:
        return
    which = f"{len(more)} of {len(models)} binary problems (the first: {names[more[0]]})" if len(models) > 1 else "it"
    needs = "the classes overlap: no model separates them, and" if slack == 0 else "the classes overlap so much that"
    warnings.warn(
        f"slack={slack:g} is less than any model can have on this data: {needs} {which} was fitted with the least "
        f"slack there is, {models.slack[more[0]]:.3g}. Smaller values give the same model; give a larger slack.",
        UserWarning,
        stacklevel=2,
    )


def warn_of_an_early_end(names: Sequence[str], problems: int, stopped: str, what: str) -> None:
    """Warn where binary problems have no final model, as the fit was stopped.

    Parameters
    ----------
    names : sequence of str
        Which of them have none; none of them: no warning.
    problems : int
        How many there are in all.
    stopped : str
        What stopped the fit: "interrupted", "max_time" or "callback".
    what : str
        What they have instead.
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
    """Warn where `warm_start=True` could not be honoured."""
    warnings.warn(
        f"warm_start=True, but this fit starts from scratch: {reason}. Its result is as good; it only takes longer.",
        UserWarning,
        stacklevel=2,
    )
