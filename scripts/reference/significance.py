"""Golden numbers of the paired t test and of McNemar's exact test, by scipy.

    python scripts/reference/significance.py > crates/kvt-tools/tests/golden/significance.json
"""

import json

import numpy as np
import scipy
from scipy import stats

rng = np.random.default_rng(20)
paired = []
for count, shift, noise in [(2, 0.3, 0.4), (3, 0.5, 0.3), (3, 0.0, 1.0), (5, -1.5, 0.2), (10, 0.05, 0.6), (40, 3.0, 0.5)]:
    first = rng.normal(60, 2, count)
    second = first + rng.normal(shift, noise, count)
    test = stats.ttest_rel(second, first)
    interval = test.confidence_interval(0.95)
    paired.append({
        "first": first.tolist(), "second": second.tolist(), "t": test.statistic, "p": test.pvalue,
        "low": interval.low, "high": interval.high,
    })
mcnemar = []
for first, second in [(0, 1), (1, 1), (3, 9), (25, 17), (140, 201), (512, 512), (1003, 880), (5, 60)]:
    test = stats.binomtest(min(first, second), first + second, 0.5)
    mcnemar.append({"first": first, "second": second, "p": test.pvalue})
versions = {"scipy": scipy.__version__, "numpy": np.__version__, "seed": 20}
print(json.dumps({"provenance": versions, "paired": paired, "mcnemar": mcnemar}, indent=1))
