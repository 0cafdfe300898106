"""Answers of a model as the six quantiles of estimates."""

import numpy as np
import pyarrow as pa

from pipeline.core.arrays import Floats

Z80, Z90, Z95, Z975, Z99 = 0.8416212, 1.2815516, 1.6448536, 1.9599640, 2.3263479
"""Quantiles of the normal distribution, by which log runtimes are interpolated between the ends of intervals."""


def quantiles_of(answers: pa.Table, requested_s: Floats) -> Floats:
    """(points, 6) runtimes at 10, 50, 80, 90, 95 and 99%, s; NaN where there is no answer.

    10, 50 and 90% are the model's own; the others lie between its 80% and 95% intervals as those of a normal
    distribution would. The median is at most the request.
    """
    middle, low, high = (np.log(answers.column(name).to_numpy()) for name in ("median_s", "low80_s", "high80_s"))
    wide = np.maximum(np.log(answers.column("high95_s").to_numpy()), high)
    near, far = high - middle, wide - middle
    beyond = near + (far - near) * (Z95 - Z90) / (Z975 - Z90)
    found: Floats = np.exp(np.column_stack([
        low, middle, middle + near * Z80 / Z90, high, middle + beyond, middle + np.maximum(far * Z99 / Z975, beyond),
    ]))  # fmt: skip
    found[:, 1] = np.where(requested_s > 0, np.fmin(found[:, 1], requested_s), found[:, 1])
    found[:, 0] = np.fmin(found[:, 0], found[:, 1])
    # Rounding may leave a quantile a digit below the one before it.
    ascending = np.maximum.accumulate(found, axis=1)
    # With few runs the 95% interval has no upper end: the request is one, and without a request there is no answer.
    asked_s = np.where(requested_s > 0, requested_s, np.nan)
    ends = np.maximum(asked_s, ascending[:, 3])[:, None]
    ascending[:, 4:] = np.where(np.isnan(ascending[:, 4:]), ends, ascending[:, 4:])
    complete: Floats = np.where(np.isnan(ascending).any(axis=1, keepdims=True), np.nan, ascending)
    return complete
