"""
A certificate over time
=======================

Every fit ends with a proof: a value that the model has, and a bound that no model can beat. With ``certify="checks"``
both are measured while the solver runs, so that we see them meet.
"""

import matplotlib.pyplot as plt

from maxmargin import LinearSVC
from maxmargin.data import load_adult
from maxmargin.display import ConvergenceDisplay

X_train, y_train, X_test, y_test = load_adult()
print(f"{X_train.shape[0]:,} people, {X_train.nnz:,} stored entries")

model = LinearSVC(slack=0.05, budget=450_000, certify="checks", random_state=0).fit(X_train, y_train)
print(f"test error    {1 - model.score(X_test, y_test):.2%}")
print(f"certificate   {model.certificate_}")
print(f"entries read  {model.entries_read_:,} to learn")

# %%
# The picture has the entries that were read to learn on its horizontal axis. The best possible margin lies between the
# two curves at all times.

ConvergenceDisplay.from_estimator(model, stored=X_train.nnz)
plt.show()

# %%
# Without a budget the same problem is solved until the gap is below ``tol``.

exact = LinearSVC(slack=0.05, random_state=0).fit(X_train, y_train)
print(f"test error    {1 - exact.score(X_test, y_test):.2%}")
print(f"certificate   {exact.certificate_}")
