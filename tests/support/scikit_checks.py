"""scikit-learn's checks of estimators: all of them for some, and those that the numbers of a fit decide for others."""

from functools import partial

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

# Checks whose outcome another solver of the same class could change: they compare models, weights, classes or
# iterations, or give data at which an algorithm may fail. Others are about parameters, tags, names, messages,
# containers and storages, which a class treats alike whatever its solver.
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
    """All checks of the estimators in `whole`, and of those in `by_solver` the checks that depend on the solver.

    `why_not` gives the reasons for which some of the checks of an estimator cannot pass.
    """
    cases = [*checks_of(whole, why_not)]
    cases += [case for case in checks_of(by_solver, why_not) if check_of(case).func.__name__ in OF_THE_SOLVER]
    return pytest.mark.parametrize(("estimator", "check"), cases, ids=label)


def checks_of(estimators, why_not):
    for estimator in estimators:
        yield from estimator_checks_generator(estimator, expected_failed_checks=why_not(estimator), mark="xfail")


def check_of(case):
    """The check of a pair of an estimator and a check, or of such a pair with a mark."""
    return getattr(case, "values", case)[1]


def label(value):
    if isinstance(value, partial):
        return "-".join([value.func.__name__, *(f"{key}={option}" for key, option in value.keywords.items())])
    return "".join(str(value).split())
