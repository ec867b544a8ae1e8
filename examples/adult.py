"""SVMs on the bundled Adult data, with a proof of how good they are.

The program trains a linear SVM on a part of the data, and a Gaussian kernel SVM with maxmargin and with scikit-learn.
It prints the errors, certificates and times, and draws the convergence of the linear one.
Run it with `make demo`, or `python examples/adult.py [picture.png]`.
"""

import sys
import time
from pathlib import Path

import matplotlib
import sklearn.svm

from maxmargin import SVC, LinearSVC
from maxmargin.data import load_adult
from maxmargin.display import ConvergenceDisplay

matplotlib.use("Agg")

X_train, y_train, X_test, y_test = load_adult()


def fitted(model):
    """The fitted model, the seconds of the fit, and the test error in per cent."""
    started = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    return model, seconds, 100 * (1 - model.score(X_test, y_test))


model, seconds, error = fitted(LinearSVC(slack=0.05, budget=150_000, random_state=0))
read, stored = model.entries_read_, X_train.nnz
certificate = model.certificate_
print(f"Adult: {X_train.shape[0]:,} people, {X_train.shape[1]} features: who earns more than 50,000 dollars a year?")
print()
print("LinearSVC, from a third of the data")
print(f"  test error      {error:.2f} %")
print(f"  margin          {model.margin_:.4f}, and no model has more than {certificate.dual * model.scale_:.4f}")
print(f"  slack           {model.slack_:g} a person on average (C = {model.C_:.3g})")
print(f"  certificate     {certificate}")
print(f"  entries read    {read:,} of {stored:,} stored ({100 * read / stored:.0f} %) to learn")
print(f"  seconds         {seconds:.2f}, certificate included")

# The same fit again, with a certificate at each check, for the picture. These certificates read far more.
traced = LinearSVC(slack=0.05, budget=450_000, certify="checks", random_state=0).fit(X_train, y_train)
picture = Path(sys.argv[1] if len(sys.argv) > 1 else "convergence.png")
ConvergenceDisplay.from_estimator(traced, stored=stored).figure_.savefig(picture, dpi=120)
print(f"  picture         {picture}")
print()

kernel = {"C": 1.0, "kernel": "rbf", "gamma": 0.05}
model, seconds, error = fitted(SVC(**kernel))
n = X_train.shape[0]
print("SVC, Gaussian kernel, gamma = 0.05, C = 1")
print(f"  test error      {error:.2f} %")
print(f"  certificate     {model.certificate_}")
print(f"  support         {model.support_.size:,} vectors")
print(f"  evaluations     {model.kernel_evaluations_:,} of the kernel, {model.kernel_evaluations_ / n**2:.0%} of all")
print(f"  seconds         {seconds:.2f}, certificate included")
print("  now the same with scikit-learn, which takes a minute or so", flush=True)
_, seconds, error = fitted(sklearn.svm.SVC(**kernel))
print("SVC of scikit-learn")
print(f"  test error      {error:.2f} %")
print(f"  seconds         {seconds:.2f}")
