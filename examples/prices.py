"""
Features with prices
====================

Some features cost money. ``OnDemand`` buys an entry when a solver first asks for it, and ``budget`` limits the money
that a fit spends. Then ``decide`` predicts each label with as few features as it needs. The pictures show the accuracy
by the price paid, and the number of features that each label needs.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import LinearSVC
from maxmargin.data import OnDemand, feature_ranges

n, d = 600, 200
rng = np.random.default_rng(0)
table = rng.normal(size=(n, d))  # stands for data that must be paid for
w = np.where(np.arange(d) < 40, 1.0, 0.0)  # 40 features tell the classes apart
y = np.where(table @ w > 0, 1, -1)
price = rng.choice([1.0, 10.0, 100.0], size=d)
everything = n * price.sum()

shares, paid, accuracy = [0.02, 0.05, 0.1, 0.2, 0.4], [], []
for share in shares:
    X = OnDemand(n, d, entries=lambda i, j: table[i, j], cost=price)
    model = LinearSVC(slack=0.05, scale=30.0, budget=share * everything, certify=False, random_state=0).fit(X, y)
    paid.append(X.spent / everything)
    accuracy.append(model.score(table, y))
    print(f"budget {share:4.0%}: {X.computed:,} entries bought for {paid[-1]:.1%} of the price of all")

# %%
# ``decide`` asks for the features of a sample in batches, until the other features can no longer change the label.

decisions = model.decide(table, ranges=feature_ranges(table), cost=price)
assert (decisions.labels == model.predict(table)).all()
print(decisions)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
left.plot(100 * np.array(paid), 100 * np.array(accuracy), "o-")
left.set(title="Learning", xlabel="paid, % of the price of all entries", ylabel="labels that are right, %")
right.hist(decisions.entries, bins=30)
right.set(title="Predicting", xlabel="features that a label needs", ylabel="samples")
plt.show()
