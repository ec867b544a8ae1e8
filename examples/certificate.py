"""
A certificate over time
=======================

Every fit ends with a certificate: the value of the model, and a bound that no model can beat. With
``certify="checks"`` the solver measures both while it runs. The picture shows the two curves approach each other.
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
# The horizontal axis shows the entries read to learn. The best possible margin always lies between the two curves.

ConvergenceDisplay.from_estimator(model, stored=X_train.nnz)
plt.show()

# %%
# Without a budget, the solver continues until the relative duality gap is below ``tol``.

exact = LinearSVC(slack=0.05, random_state=0).fit(X_train, y_train)
print(f"test error    {1 - exact.score(X_test, y_test):.2%}")
print(f"certificate   {exact.certificate_}")
