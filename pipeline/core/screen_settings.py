"""Settings of what is looked for in a group's series before it is fitted: odd sizes, patterns, runtime classes."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section


class AnomalySettings(Section):
    """Which sizes of a series are left out of its fit because the others contradict them."""

    method: Literal["leave_one_out", "r_metric", "off"] = Field(
        "leave_one_out", description="How odd sizes are found; r_metric: ADEPT's, by jumps of efficiency."
    )
    false_alarms: float = Field(
        0.05, gt=0, lt=1, description="Share of clean series in which a size may be called odd (leave_one_out)."
    )
    min_points: int = Field(5, ge=4, description="Sizes a series needs before one of them can be called odd.")
    least_departure: float = Field(
        0.1, ge=0, description="A size less far off is left to the laws, however sure it is (log s; 0.1 is 10%)."
    )
    wide_log_sd: float = Field(
        0.5, gt=0, description="Groups whose repeats spread more mix different work: nothing is looked for (log s)."
    )
    max_share: float = Field(0.25, gt=0, le=0.5, description="Share of a series' sizes that may be odd, at most.")
    least_log_sd: float = Field(
        0.01, gt=0, description="What runs differ by however alike the repeats are (log s; 0.01 is 1%)."
    )
    default_log_sd: float = Field(
        0.05, gt=0, description="Spread of runs where nothing in the log was run twice (log s)."
    )
    epsilon: float = Field(0.1, gt=0, description="Rise of the step efficiency R that r_metric lets pass (share).")
    theta: float = Field(5.0, ge=1, description="An odd size's weight is divided by this many times its rise/epsilon,")
    weight_cap: float = Field(10.0, ge=1, description="... and by this at most (r_metric).")

    @property
    def noise(self) -> tuple[float, float]:
        """Least and default log sd of a run."""
        return self.least_log_sd, self.default_log_sd


class PatternSettings(Section):
    """Steps, favoured processor counts and declining pieces of a series."""

    odds: float = Field(
        20.0, gt=1, description="Odds for a pattern from which it counts: 20 is a false alarm in at most 1 of 20."
    )
    gain_odds: float = Field(
        1.5,
        ge=1,
        description="The same for a step from which on runs are faster, where repeats tell the noise: a false alarm in "
        "at most 1 of 100.",
    )
    least_departure: float = Field(
        0.1, ge=0, description="A step or class of a smaller factor is left to the laws (log s; 0.1 is 10%)."
    )
    wide_log_sd: float = Field(
        0.5, gt=0, description="Groups whose repeats spread more mix different work: nothing is looked for (log s)."
    )
    departure_log_sd: float = Field(
        0.3, gt=0, description="How far a phase or class of sizes typically departs (log s; 0.3 is 35%)."
    )
    min_phase_points: int = Field(3, ge=2, description="Sizes on either side of a step.")
    min_class_points: int = Field(3, ge=2, description="Sizes inside a favoured class, and outside it.")
    node_procs: int | None = Field(
        None, ge=2, description="Processors of a node; default: multiples of it are not looked at."
    )


class AcrossSettings(Section):
    """How one problem size of an application tells another's runtimes."""

    same_prior: float = Field(
        0.7, gt=0, lt=1, description="Prior probability that two problem sizes are one application's."
    )
    agreement: float = Field(
        0.7,
        ge=0,
        lt=1,
        description="Intervals are narrower by this share where two sizes surely are one application's.",
    )
    size_log_sd: float = Field(
        0.15, ge=0, description="What a base's curve leaves unexplained at another problem size (log s)."
    )
    run_log_sd: float = Field(0.07, gt=0, description="What a size's runtime is off its curve (log s).")
    apart: float = Field(
        0.2, gt=0, lt=1, description="Below this posterior probability two sizes count as two applications."
    )
    is_guarded: bool = Field(
        True,
        description="Whether a gain that neither size shows is held back, and nothing is borrowed of a larger problem.",
    )
    own_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Weight of the target's own prediction in the published one (geometric mean); 1 borrows nothing.",
    )
    ratio_log_error: float = Field(
        0.25,
        gt=0,
        description="A constant ratio further than this off the joint fit misleads: the shape moves (log s).",
    )


class ClassSettings(Section):
    """Runtime classes inside a group: what may be problem sizes that nothing names."""

    max_classes: int = Field(3, ge=1, le=8, description="Classes looked for, at most; 1: none.")
    min_jobs: int = Field(40, ge=4, description="Jobs a group needs to tell classes.")
    min_share: float = Field(0.1, gt=0, lt=1, description="Share of the group's jobs in a class, at least.")
    least_factor: float = Field(1.5, gt=1, description="Runtime of a class over that of the one below, at least.")
    valley_errors: float = Field(
        3.0,
        gt=0,
        description="Standard errors by which fewer jobs lie between two classes than about either, at least.",
    )
