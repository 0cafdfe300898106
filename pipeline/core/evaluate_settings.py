"""Settings of evaluations."""

from pydantic import Field

from pipeline.core.section import Section


class ScalingSettings(Section):
    """Which sizes of a measured series are given to predict the others."""

    smallest: tuple[int, ...] = Field(
        (3, 4, 5), description="Numbers of smallest sizes that are given, one split each."
    )
    spread: tuple[int, ...] = Field(
        (3, 4), description="Numbers of evenly spread sizes that are given, one split each."
    )
    min_sizes: int = Field(4, ge=2, description="Least number of sizes of a series.")
    near: float = Field(4.0, ge=1, description="Largest ratio of a near target to the largest given size.")
