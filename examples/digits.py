"""
Handwritten digits
==================

A kernel SVM learns ten digits. It says how good it provably is, and we look at the digits that it gets wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxmargin import SVC

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = SVC(C=10.0).fit(X_train, y_train)
print(f"accuracy      {model.score(X_test, y_test):.1%} on {len(y_test)} digits that it has not seen")
print(f"certificate   {model.certificate_}")
print(f"support       {len(model.support_)} of {len(X_train)} digits")

# %%
# There is a binary problem for each pair of digits, 45 in all, and a certificate for each of them. The digits below are
# those that the model gets wrong, and, to fill the rows, the ones for which the vote between classes was closest.

predicted = model.predict(X_test)
votes = np.sort(model.decision_function(X_test), axis=1)
order = np.lexsort([votes[:, -1] - votes[:, -2], predicted == y_test])

figure, panels = plt.subplots(2, 6, figsize=(8, 3.2), layout="constrained")
for k, panel in zip(order, panels.flat, strict=False):
    panel.imshow(X_test[k].reshape(8, 8), cmap="gray_r")
    panel.set_title(
        f"{y_test[k]}, taken for {predicted[k]}", size=9, color="black" if y_test[k] == predicted[k] else "C3"
    )
    panel.axis("off")
plt.show()
