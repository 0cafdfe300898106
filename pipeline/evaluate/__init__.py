"""Judges what the other rooms answer against what was measured; it reads and never writes back."""

from pipeline.evaluate.scaling import evaluate_scaling

__all__ = ["evaluate_scaling"]
