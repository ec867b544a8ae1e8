"""The public names and parameters: one that disappears breaks the programs of its users.

A new name is added here when it becomes public.
"""

import dataclasses
import inspect
from importlib import import_module

import pytest

import maxmargin
from maxmargin import solvers

NAMES = {
    "maxmargin": """
        EnclosingBall LinearSVC LinearSVCCV ModelFileError RegularizedSVM SVC SVCCV SlackSVM load_model save_model
        slack_path solve
    """,
    "maxmargin.problems": """
        BallEvaluation Certificate Certificates Evaluation Expansion Hinge Kernel KernelMatrix LOSSES Loss
        MarginEvaluation MarginProblem MaxMin MinimumEnclosingBall Problem RegularizedSVM
        SemidefiniteFeasibility SemidefiniteProgram SlackSVM
        Solution SquaredHinge certify_C equivalent_C equivalent_slack factor length make_kernel reached_slack
    """,
    "maxmargin.solvers": """
        BatchPerceptron CoreSet Decomposition ExponentiatedGradient Holdout Hybrid KERNEL_SOLVERS KernelPegasos
        KernelPerceptron KernelSdca KernelSublinearPerceptron LazyGradient Learned Newton NoModelYet OTHER_SOLVERS
        OnlineSolver Pegasos Perceptron Player PrimalDual Progress Result Resume Row RunningMean SOLVERS Sdca
        SdcaThenNewton SdpAnswer SdpResult SdpTry Simba Smo Solver StochasticBatchPerceptron StochasticGradient
        SublinearBall SublinearPerceptron SublinearSdp Trace Traces auto_solver decide decided listen_for_interrupt
        solve solve_for_C solve_for_slack solve_sdp
    """,
    "maxmargin.data": """
        FeatureError FeatureRanges FileFormatError LibsvmError LogError OnDemand ProgramArrays SdpaError
        SymmetricMatrices Table as_matrix as_symmetric_matrices atomic_write convert feature_ranges find_dataset
        load_adult load_table open_store read_libsvm read_program read_sdpa read_table refuse_not_finite
        required_labels write_libsvm write_sdpa
    """,
    "maxmargin.core": """
        Ledger Matrix TopWeights Water WeightTree empty_by_pages l1_sample l1_samples l2_sample pour water_level
        water_levels
    """,
    "maxmargin.display": """
        ConvergenceDisplay MarginDisplay PathDisplay RegionsDisplay SearchDisplay
    """,
    "maxmargin.estimators": """
        Decisions EnclosingBall LinearSVC LinearSVCCV ModelFileError Path PathPoint RangeWarning SVC SVCCV load_model
        save_model slack_path
    """,
}

PARAMETERS = {
    "LinearSVC": """
        penalty loss dual tol C slack multi_class solver fit_intercept intercept_scaling max_iter max_time
        budget early_stopping validation_fraction class_weight certify scale keep_dual warm_start n_jobs
        random_state verbose
    """,
    "SVC": """
        C slack kernel degree gamma coef0 shrinking probability solver fit_intercept tol max_iter max_time
        budget early_stopping validation_fraction class_weight multi_class decision_function_shape break_ties
        cache_size certify warm_start n_jobs random_state verbose
    """,
    "LinearSVCCV": """
        Cs slacks cv scoring refit one_standard_error loss fit_intercept tol max_time class_weight n_jobs
        random_state verbose
    """,
    "SVCCV": """
        Cs slacks gammas kernel cv scoring refit one_standard_error degree coef0 fit_intercept tol max_time
        class_weight cache_size n_jobs random_state verbose
    """,
    "EnclosingBall": """
        nu kernel degree gamma coef0 solver tol max_iter max_time budget cache_size n_jobs random_state verbose
    """,
}

HYPERPARAMETERS = {
    "Newton": "first",
    "Sdca": "shrink extrapolate",
    "SdcaThenNewton": "newton_passes",
    "Simba": "method columns rows eps lagged tolerance average",
    "BatchPerceptron": "",
    "Hybrid": "shrinking growth memory points",
    "Perceptron": "passes order average",
    "SublinearPerceptron": "eps constant",
    "Pegasos": "batch order average project free_bias",
    "StochasticGradient": "rate",
    "Decomposition": "first growth block",
    "KernelPegasos": "batch order average",
    "KernelPerceptron": "passes order average",
    "KernelSdca": "order",
    "KernelSublinearPerceptron": "eps constant",
    "Smo": "shrink",
    "StochasticBatchPerceptron": "method block average",
    "CoreSet": "method block",
    "PrimalDual": "player eps confidence constant",
    "SublinearSdp": "eps method exactly confidence constant",
    "SublinearBall": "eps confidence constant columns update centred",
}
LINEAR_SOLVERS = (
    "batch_perceptron hybrid newton pegasos perceptron sdca sdca_newton simba stochastic_gradient sublinear_perceptron"
)
KERNEL_SOLVERS = "decomposition pegasos perceptron sbp sdca smo sublinear_perceptron"
STOP_RULES = "tol max_iter max_time budget holdout early_stopping certify callback random_state warm"


@pytest.mark.parametrize("module", NAMES)
def test_every_public_name_is_there(module):
    names = set(NAMES[module].split())
    assert not {name for name in names if not hasattr(import_module(module), name)}
    assert names <= set(import_module(module).__all__)


@pytest.mark.parametrize("estimator", PARAMETERS)
def test_every_parameter_of_an_estimator_is_there(estimator):
    parameters = inspect.signature(getattr(maxmargin, estimator)).parameters
    assert not set(PARAMETERS[estimator].split()) - set(parameters)
    assert set(getattr(maxmargin, estimator)().get_params()) == set(parameters)


@pytest.mark.parametrize("solver", HYPERPARAMETERS)
def test_every_hyper_parameter_of_a_solver_is_there(solver):
    fields = [field.name for field in dataclasses.fields(getattr(solvers, solver))]
    assert not set(HYPERPARAMETERS[solver].split()) - set(fields)


def test_every_solver_has_kept_its_name():
    assert not set(LINEAR_SOLVERS.split()) - set(solvers.SOLVERS)
    assert not set(KERNEL_SOLVERS.split()) - set(solvers.KERNEL_SOLVERS)


def test_every_stop_rule_of_solve_is_there():
    assert not set(STOP_RULES.split()) - set(inspect.signature(solvers.solve).parameters)
