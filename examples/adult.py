"""A linear SVM on the bundled Adult data, trained on a part of it, with a proof of how good it is.

Run it with `make demo`, or `python examples/adult.py [picture.png]`.
"""

import sys
import time
from pathlib import Path

import matplotlib

from maxmargin import LinearSVC
from maxmargin.data import load_adult
from maxmargin.display import ConvergenceDisplay

matplotlib.use("Agg")

X_train, y_train, X_test, y_test = load_adult()
started = time.perf_counter()
model = LinearSVC(slack=0.05, budget=150_000, random_state=0).fit(X_train, y_train)
seconds = time.perf_counter() - started

read, stored = model.entries_read_, X_train.nnz
certificate = model.certificate_
print(f"Adult: {X_train.shape[0]:,} people, {X_train.shape[1]} features: who earns more than 50,000 dollars a year?")
print()
print(f"  test error      {100 * (1 - model.score(X_test, y_test)):.2f} %")
print(f"  margin          {model.margin_:.4f}, and no model has more than {certificate.dual * model.scale_:.4f}")
print(f"  slack           {model.slack_:g} a person on average (C = {model.C_:.3g})")
print(f"  certificate     {certificate}")
print(f"  entries read    {read:,} of {stored:,} stored ({100 * read / stored:.0f} %) to learn")
print(f"  seconds         {seconds:.2f}, certificate included")

# The same fit once more with a certificate at each check, which reads far more, to see how it came to its answer.
traced = LinearSVC(slack=0.05, budget=450_000, certify="checks", random_state=0).fit(X_train, y_train)
picture = Path(sys.argv[1] if len(sys.argv) > 1 else "convergence.png")
ConvergenceDisplay.from_estimator(traced, stored=stored).figure_.savefig(picture, dpi=120)
print(f"  picture         {picture}")
