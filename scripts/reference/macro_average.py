"""Golden averages over classes: scikit-learn's balanced accuracy, and its F1 over the classes with images.

Writes `crates/kvt-train/tests/golden/macro_average.json`: `classes`, `labels` and `predicted` of images, `recall`, `f1`. One class has no
image but is predicted, one is never predicted, one is neither.
"""

import json

import numpy
import sklearn
from sklearn.metrics import balanced_accuracy_score, f1_score

from common import golden, provenance, wrote

SEED, IMAGES = 3, 60


def main():
    random = numpy.random.default_rng(SEED)
    labels = random.choice(7, IMAGES, p=[0.4, 0.3, 0.15, 0.1, 0.05, 0, 0])
    predicted = numpy.where(random.random(IMAGES) < 0.5, labels, random.choice(5, IMAGES))
    # Class 2 is never predicted, class 5 has no image, class 6 is neither.
    predicted[predicted == 2] = 5
    there = numpy.unique(labels)
    numbers = dict(
        classes=7, labels=labels.tolist(), predicted=predicted.tolist(),
        recall=balanced_accuracy_score(labels, predicted),
        f1=f1_score(labels, predicted, labels=there, average="macro"),
        provenance=provenance(SEED) | {"scikit-learn": sklearn.__version__},
    )
    path = golden("kvt-train") / "macro_average.json"
    path.write_text(json.dumps(numbers) + "\n")
    wrote(path)


if __name__ == "__main__":
    main()
