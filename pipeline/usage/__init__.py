"""What jobs held and did not use: JOBS -> WASTE."""

from pipeline.usage.waste import carbon, waste

__all__ = ["carbon", "waste"]
