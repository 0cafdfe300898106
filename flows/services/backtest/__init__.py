"""Backtests of estimates and of published predictions."""
