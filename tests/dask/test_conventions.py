"""scikit-learn's conventions hold for the estimators on a cluster, which take data of this process as well."""

import pytest
from scikit_checks import check_of, checks_of, label

from maxmargin.dask import LinearSVC

# Checks of many fits, whose outcome is that of the estimator without a cluster: the models are the same.
OF_MANY_FITS = {
    "check_class_weight_classifiers",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_dont_overwrite_parameters",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_methods_sample_order_invariance",
    "check_non_transformer_estimators_n_iter",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
CASES = [
    case
    for case in checks_of([LinearSVC(random_state=0, tol=1e-6)], lambda _: {})
    if check_of(case).func.__name__ not in OF_MANY_FITS
]


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(("estimator", "check"), CASES, ids=label)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
