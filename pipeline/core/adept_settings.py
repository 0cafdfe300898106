"""Settings of ADEPT's own search, for reproducing and comparing it."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section


class AdeptSettings(Section):
    """How ADEPT (Deshmeh 2013) searches, where `method` of the fit is "adept"."""

    scale: Literal["free", "unit"] = Field(
        "free", description='Scale of runtimes; "unit": in units where T(inf) = 1 (low mode), as in the thesis.'
    )
    delta: float = Field(
        0.05, gt=0, le=1, description="Initial relative half-width of the envelope, and the step by which it grows."
    )
    q: float = Field(
        2.0, ge=1, description="Weight of an observation: q times the largest distance to the target, minus its own."
    )
    reach: float = Field(
        64.0, gt=1, description="With a free scale, T(inf) is searched down to the shortest runtime divided by this."
    )
    scale_step: float = Field(1.05, gt=1, description="Ratio of neighbouring scales in the search.")
