"""Which methods there are to try, with a config's settings bound to them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from pipeline.core.arrays import Floats
from pipeline.core.settings import RunSettings
from pipeline.estimate.history import History
from pipeline.evaluate.stand_in import running_quantiles

try:
    from pipeline.estimate.registry import ESTIMATORS
except ModuleNotFoundError:  # until the registry is there: two methods that need nothing
    ESTIMATORS: Mapping[str, Callable[[History, Any], Floats]] = {  # type: ignore[no-redef]
        "request": lambda past, _: np.repeat(np.where(past.requested_s > 0, past.requested_s, np.nan)[:, None], 5, 1),
        "log_so_far": lambda past, _: running_quantiles(past),
    }

METHODS = tuple(ESTIMATORS)


def bound(method: str, settings: RunSettings) -> Callable[[History], Floats]:
    """A method that asks for nothing but a log's history."""

    def estimate(past: History) -> Floats:
        return ESTIMATORS[method](past, getattr(settings, "forecast", None))

    return estimate
