"""The methods that can be backtested, with a config's settings bound to them."""

from collections.abc import Callable
from pathlib import Path

from pipeline.core.arrays import Floats
from pipeline.core.settings import RunSettings
from pipeline.estimate.history import History
from pipeline.estimate.registry import AT_MIDNIGHT, ESTIMATORS
from pipeline.estimate.templates.smith import smith
from pipeline.estimate.templates.templates_toml import read_templates
from pipeline.evaluate.inputs_method import inputs_else_walltime

INPUTS = "inputs"

METHODS = (*ESTIMATORS, INPUTS)
STALE_METHODS = (*AT_MIDNIGHT, INPUTS)


def method_with_settings(method: str, settings: RunSettings) -> Callable[[History], Floats]:
    """A function from a log's history to estimates; ConfigError where the method's templates cannot be read."""

    if method == "smith" and settings.forecast.templates_file:
        templates = read_templates(Path(settings.forecast.templates_file).expanduser())
        return lambda past: smith(past, templates)

    if method == INPUTS:
        return lambda past: inputs_else_walltime(past, settings)

    def estimate(past: History) -> Floats:
        return ESTIMATORS[method](past, settings.forecast)

    return estimate
