#!/usr/bin/env python3
"""Writes two tables of labels into a folder of CIFAR-10 (datasets/cifar10.md), for configs/unbalanced:

    scripts/unbalanced.py data/cifar10

`unbalanced.csv` has five classes with 500, 200, 100, 50 and 20 training images, the first ones by name, and all their validation
images; `others.csv` all images of the other five classes. Needs Python 3.11 alone.
"""

import csv
import sys
from pathlib import Path

COUNTS = {"airplane": 500, "automobile": 200, "bird": 100, "cat": 50, "deer": 20}


def images(root, split, label):
    found = sorted(path.relative_to(root).as_posix() for path in (root / split / label).iterdir())
    if not found:
        sys.exit(f"`{root / split / label}` has no images")
    return found


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1])
    names = sorted(path.name for path in (root / "train").iterdir() if path.is_dir())
    tables = {"unbalanced.csv": list(COUNTS), "others.csv": [name for name in names if name not in COUNTS]}
    for file, classes in tables.items():
        with open(root / file, "w", newline="") as out:
            rows = csv.writer(out, lineterminator="\n")
            rows.writerow(["path", "label", "split"])
            for label in classes:
                for split in ("train", "val"):
                    most = COUNTS.get(label) if split == "train" else None
                    rows.writerows([path, label, split] for path in images(root, split, label)[:most])
        print(f"wrote {root / file}")


if __name__ == "__main__":
    main()
