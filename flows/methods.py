"""Which methods there are to try, with a config's settings bound to them."""

from collections.abc import Callable

from pipeline.core.arrays import Floats
from pipeline.core.settings import RunSettings
from pipeline.estimate.history import History
from pipeline.estimate.registry import ESTIMATORS

METHODS = tuple(ESTIMATORS)


def bound(method: str, settings: RunSettings) -> Callable[[History], Floats]:
    """A method that asks for nothing but a log's history."""

    def estimate(past: History) -> Floats:
        return ESTIMATORS[method](past, settings.forecast)

    return estimate
