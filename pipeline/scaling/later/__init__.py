"""Predictions as they hold some days later: calibrated on past windows of the log."""
