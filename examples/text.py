"""
Text: the most telling words
============================

A linear SVM tells messages about two topics apart. The picture shows the words with the largest weights, which are
typical of each topic. The messages are generated, so that nothing has to be downloaded: each draws most of its words
from a common vocabulary and a few from the vocabulary of its topic.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from maxmargin import LinearSVC

COMMON = [
    "the",
    "a",
    "of",
    "and",
    "to",
    "in",
    "is",
    "it",
    "that",
    "was",
    "for",
    "on",
    "with",
    "as",
    "be",
    "this",
    "have",
    "are",
    "not",
    "but",
    "had",
    "they",
    "you",
    "all",
    "can",
    "will",
    "one",
]
SPACE = [
    "orbit",
    "rocket",
    "moon",
    "launch",
    "shuttle",
    "telescope",
    "star",
    "planet",
    "astronaut",
    "gravity",
    "mission",
    "satellite",
]
HOCKEY = ["goal", "puck", "ice", "team", "coach", "season", "player", "goalie", "league", "stick", "score", "defence"]

rng = np.random.default_rng(0)


def message(topic, other):
    """A message of twenty common words, two words of the topic, and at times one or two of the other topic."""
    words = [*rng.choice(COMMON, 20), *rng.choice(topic, 2), *rng.choice(other, rng.binomial(2, 0.4))]
    return " ".join(rng.permutation(words))


texts = [message(SPACE, HOCKEY) if k % 2 else message(HOCKEY, SPACE) for k in range(2000)]
topics = np.array(["space" if k % 2 else "hockey" for k in range(2000)])
train, test, y_train, y_test = train_test_split(texts, topics, random_state=0)

# %%
# ``TfidfVectorizer`` returns a sparse matrix with a column for each word, which ``LinearSVC`` reads without a copy.

model = make_pipeline(TfidfVectorizer(), LinearSVC(C=1.0)).fit(train, y_train)
words, svm = model[0].get_feature_names_out(), model[-1]
print(f"accuracy      {model.score(test, y_test):.1%}")
print(f"certificate   {svm.certificate_}")
print(f"solver        {svm.solver_}, ended by {svm.stopped_}")

# %%
# A word with a positive weight indicates ``classes_[1]``, one with a negative weight ``classes_[0]``.

weights = svm.coef_[0]
order = np.argsort(weights)
telling = np.concatenate([order[:10], order[-10:]])
figure, axes = plt.subplots(figsize=(6, 4.8), layout="constrained")
axes.barh(words[telling], weights[telling], color=np.where(weights[telling] > 0, "C0", "C1"))
axes.axvline(0, color="gray", lw=0.8)
axes.set(
    title="The most telling words", xlabel=f"weight: {svm.classes_[0]} to the left, {svm.classes_[1]} to the right"
)
plt.show()
