"""The methods that can be backtested, with a config's settings bound to them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.estimate_rules import ESTIMATE_RULES
from pipeline.estimate.history import History
from pipeline.estimate.registry import AT_MIDNIGHT, ESTIMATORS, submitted_runs
from pipeline.estimate.templates.smith import smith
from pipeline.estimate.templates.templates_toml import read_templates
from pipeline.estimate.walltime import walltime
from pipeline.inputs.log_estimates import as_of_quantiles
from pipeline.settings import RunSettings


def inputs_else_walltime(past: History, settings: RunSettings) -> Floats:
    """(jobs, 6) quantiles, s, as of each submit: what a query would answer from tables of that moment.

    Without rules of inputs, or where no model has beaten its rivals, these are the quantiles of `walltime`.
    """
    instead = walltime(past, ESTIMATE_RULES)
    found = as_of_quantiles(submitted_runs(past, ESTIMATE_RULES, instead[:, 1]), settings.inputs)
    return np.where(np.isnan(found[:, 1:2]), instead, found)


INPUTS = "inputs"

METHODS = (*ESTIMATORS, INPUTS)
STALE_METHODS = (*AT_MIDNIGHT, INPUTS)


def method_with_settings(method: str, settings: RunSettings) -> Callable[[History], Floats]:
    """A function from a log's history to estimates; ConfigError where the method's templates cannot be read."""
    if method == "smith" and ESTIMATE_RULES.templates_file:
        templates = read_templates(Path(ESTIMATE_RULES.templates_file).expanduser())
        return lambda past: smith(past, templates)

    if method == INPUTS:
        return lambda past: inputs_else_walltime(past, settings)

    def estimate(past: History) -> Floats:
        return ESTIMATORS[method](past, ESTIMATE_RULES)

    return estimate
