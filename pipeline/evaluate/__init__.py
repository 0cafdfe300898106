"""How good estimates are on a log's own past. Stands above the rooms, for it runs what they do; writes nothing back."""

from pipeline.evaluate.backtest import backtest
from pipeline.evaluate.leaks import check_no_look_ahead

__all__ = ["backtest", "check_no_look_ahead"]
