"""Settings of evaluations."""

from pydantic import Field

from pipeline.core.section import Section


class ScalingSettings(Section):
    """From which sizes of a measured series the others are predicted."""

    smallest: tuple[int, ...] = Field((3, 4, 5), description="How many of the smallest sizes are given, a split each.")
    spread: tuple[int, ...] = Field((3, 4), description="How many sizes, evenly spread over all, are given.")
    min_sizes: int = Field(4, ge=2, description="Sizes a series needs to be part of it.")
    near: float = Field(4.0, ge=1, description="A target is near up to this many times the largest size given.")
