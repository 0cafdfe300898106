"""Settings of room `phases`: how phases are found in an MPI trace, and which of their occurrences are timed."""

from typing import Literal

from pydantic import Field

from pipeline.core.probe_settings import ProbeSettings
from pipeline.core.section import Section


class Pas2pSettings(Section):
    """PAS2P (Wong, Rexachs and Luque 2014); each default that departs from the paper has its reason.

    `LITERAL_PAS2P` below follows the paper's words.
    """

    program_order: bool = Field(
        True,
        description="A receive is also later than its rank's last event; the paper's LT + 1 alone breaks that order.",
    )
    sign_and_count_type: bool = Field(
        False,
        description="An event's type is only its direction and its number of ranks; phases then differ by machine.",
    )
    search_each_tick: bool = Field(
        False,
        description="A known phase is searched for at every tick; short phases then cut longer ones that hold them.",
    )
    similar_share: float = Field(0.8, gt=0, le=1, description="Least share of events alike in two similar phases.")
    compute_similarity: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Least ratio of the computation before two alike events; noise makes hundreds of phases. 0: off.",
    )
    silence_is_alike: bool = Field(
        False,
        description="No event of a rank is alike to any event; different phases of a few ranks would be merged.",
    )
    max_level: int = Field(2, ge=0, le=4, description="How often phases may be joined to longer ones that repeat.")
    most_phases: int = Field(
        25, ge=1, description="Phases are joined while there are more than this: the most in the paper's Table 8."
    )
    relevant_share: float = Field(0.01, gt=0, lt=1, description="Least share of the time of a relevant phase.")
    least_coverage: float = Field(
        0.95, ge=0, lt=1, description="Share of the time that relevant phases cover; smaller ones are added. 0: off."
    )


LITERAL_PAS2P = Pas2pSettings(
    program_order=False,
    sign_and_count_type=True,
    search_each_tick=True,
    similar_share=0.8,
    compute_similarity=0.85,
    silence_is_alike=True,
    max_level=0,
    relevant_share=0.01,
    least_coverage=0.0,
)
"""The paper's own words."""


class PhasePlanSettings(Section):
    """Which occurrences are timed, and when timing them does not pay."""

    budget: float = Field(0.05, gt=0, le=1, description="Share of the run's time to spend, warm-up included.")
    least_samples: int = Field(
        3, ge=1, description="Least number of occurrences timed per phase; fewer tell nothing about their spread."
    )
    warmup: int = Field(1, ge=0, description="Occurrences before each timed one that only warm up caches.")
    repetition_samples: int = Field(
        10, ge=1, description="Occurrences of each phase whose timing has to save time in a repetitive run."
    )
    most_share: float = Field(
        0.9, gt=0, le=1, description="A run is not repetitive if timing these takes more than this share of its events."
    )


class ExpansionSettings(Section):
    """How the times of some occurrences become the runtime."""

    form: Literal["regression", "ratio", "count"] = Field(
        "regression",
        description="count: occurrences by their mean time; ratio: the reference time by the ratio of timed to "
        "reference; regression: between the two, by the slope of the times on those of the reference.",
    )
    divide_by_coverage: bool = Field(True, description="Whether phases that are not timed count as the others do.")


LITERAL_EXPANSION = ExpansionSettings(form="count", divide_by_coverage=False)
"""Equation (1) of the paper."""


class PhaseSettings(Section):
    """All settings of room `phases`."""

    pas2p: Pas2pSettings = Pas2pSettings()
    probes: ProbeSettings = ProbeSettings()
    plan: PhasePlanSettings = PhasePlanSettings()
    expansion: ExpansionSettings = ExpansionSettings()
