"""
Handwritten digits
==================

A kernel SVM learns to tell ten digits apart, and its certificate says how near it is to the optimum. The picture shows
the test digits that the model gets wrong.
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
# Each pair of digits is a binary problem with a certificate of its own, 45 in all. The picture shows the digits that
# the model gets wrong. The remaining places show the digits with the closest votes between classes.

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
