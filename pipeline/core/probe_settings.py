"""Settings of performance probes: phases of a serial program, found in its basic-block vectors."""

from pydantic import Field

from pipeline.core.section import Section


class ProbeSettings(Section):
    """The clustering follows SimPoint 3.2; its published defaults are the defaults here."""

    dimensions: int = Field(15, ge=1, le=1000, description="Dimensions of the random projection.")
    max_phases: int = Field(15, ge=1, le=200, description="Largest number of phases that is tried.")
    restarts: int = Field(5, ge=1, le=1000, description="Runs of k-means from other first centres, for each number.")
    max_steps: int = Field(100, ge=1, description="Largest number of steps of one run of k-means.")
    bic_share: float = Field(
        0.9,
        ge=0,
        le=1,
        description="The least number of phases is taken whose BIC is this share of the way from worst to best.",
    )
    seed: int = Field(0, ge=0, description="Seed of the projection and of the first centres.")
