"""How good estimates and predictions are against what was measured. Stands above the rooms; writes nothing back."""

from pipeline.evaluate.backtest import backtest
from pipeline.evaluate.leaks import check_no_look_ahead
from pipeline.evaluate.scaling import evaluate_scaling

__all__ = ["backtest", "check_no_look_ahead", "evaluate_scaling"]
