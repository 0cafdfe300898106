"""Errors of estimates and predictions against measured runtimes; may use all other packages, and publishes nothing."""

from pipeline.evaluate.backtest import backtest
from pipeline.evaluate.methods import check_no_look_ahead
from pipeline.evaluate.scaling_errors import evaluate_scaling

__all__ = ["backtest", "check_no_look_ahead", "evaluate_scaling"]
