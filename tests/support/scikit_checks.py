"""scikit-learn's checks of estimators: all of them for some estimators, those that depend on the solver for others."""

from functools import partial

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

# Checks whose outcome may depend on the solver of an estimator: they compare models, weights, classes or iterations, or
# use data on which an algorithm may fail. The other checks concern parameters, tags, names, messages, containers and
# storages, which an estimator treats in the same way for all solvers.
OF_THE_SOLVER = {
    "check_all_zero_sample_weights_error",
    "check_class_weight_balanced_linear_classifier",
    "check_class_weight_classifiers",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_classifiers_one_label_sample_weights",
    "check_classifiers_train",
    "check_dict_unchanged",
    "check_estimators_dtypes",
    "check_estimators_overwrite_params",
    "check_estimators_partial_fit_n_features",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_non_transformer_estimators_n_iter",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_not_overwritten",
}


def each_check(whole, by_solver, why_not):
    """All checks of the estimators in `whole`, and the checks in `OF_THE_SOLVER` of the estimators in `by_solver`.

    `why_not` returns the checks that an estimator cannot pass, with the reasons.
    """
    cases = [*checks_of(whole, why_not)]
    cases += [case for case in checks_of(by_solver, why_not) if check_of(case).func.__name__ in OF_THE_SOLVER]
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=label)


def checks_of(estimators, why_not):
    for estimator in estimators:
        yield from estimator_checks_generator(estimator, expected_failed_checks=why_not(estimator), mark="xfail")


def check_of(case):
    """The check of a pair (estimator, check), or of such a pair with a mark."""
    return getattr(case, "values", case)[1]


def label(value):
    if isinstance(value, partial):
        return "-".join([value.func.__name__, *(f"{key}={option}" for key, option in value.keywords.items())])
    return "".join(str(value).split())
