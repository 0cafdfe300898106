"""Settings of the screens before a fit: odd sizes, patterns, runtime classes, problem sizes."""

from typing import Literal

from pydantic import Field

from pipeline.core.section import Section


class AnomalySettings(Section):
    """Which sizes of a series are left out of its fit because the others contradict them."""

    method: Literal["leave_one_out", "r_metric", "off"] = Field(
        "leave_one_out", description="How odd sizes are found; r_metric: ADEPT's method, by jumps of efficiency."
    )
    false_alarms: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="Rate of false alarms: share of clean series in which a size is called odd (leave_one_out).",
    )
    min_points: int = Field(5, ge=4, description="Least number of sizes of a series in which a size can be odd.")
    least_departure: float = Field(0.1, ge=0, description="Least deviation of an odd size (log s; 0.1 is 10%).")
    wide_log_sd: float = Field(
        0.5,
        gt=0,
        description="Largest spread of repeats in a searched group; wider groups mix different work (log s).",
    )
    max_share: float = Field(0.25, gt=0, le=0.5, description="Largest share of odd sizes in a series.")
    least_log_sd: float = Field(0.01, gt=0, description="Lower bound of the spread of repeats (log s; 0.01 is 1%).")
    default_log_sd: float = Field(0.05, gt=0, description="Spread of repeats where the log has no repeats (log s).")
    epsilon: float = Field(
        0.1, gt=0, description="Largest rise of the step efficiency R that r_metric accepts (share)."
    )
    theta: float = Field(
        5.0, ge=1, description="The weight of an odd size is divided by theta times its rise over epsilon (r_metric)."
    )
    weight_cap: float = Field(10.0, ge=1, description="Largest such divisor of a weight (r_metric).")

    @property
    def noise(self) -> tuple[float, float]:
        """Least and default log sd of a run."""
        return self.least_log_sd, self.default_log_sd


class PatternSettings(Section):
    """Steps, favoured processor counts and declining pieces of a series."""

    odds: float = Field(
        20.0,
        gt=1,
        description="Least odds of a pattern that is reported; 20 is a false alarm in at most 1 of 20 series.",
    )
    gain_odds: float = Field(
        1.5,
        ge=1,
        description="The same for a step to faster runs where repeats measure the noise; a false alarm in at most "
        "1 of 100 series.",
    )
    least_departure: float = Field(
        0.1, ge=0, description="Least factor of a step or of a favoured class (log s; 0.1 is 10%)."
    )
    wide_log_sd: float = Field(
        0.5,
        gt=0,
        description="Largest spread of repeats in a searched group; wider groups mix different work (log s).",
    )
    departure_log_sd: float = Field(
        0.3, gt=0, description="Typical deviation of a phase or class of sizes from the curve (log s; 0.3 is 35%)."
    )
    min_phase_points: int = Field(3, ge=2, description="Least number of sizes on either side of a step.")
    min_class_points: int = Field(3, ge=2, description="Least number of sizes inside and outside a favoured class.")
    node_procs: int | None = Field(
        None, ge=2, description="Processors of a node; without it multiples of a node are not a candidate pattern."
    )


class AcrossSettings(Section):
    """How the curve of one problem size predicts another problem size of the same application."""

    same_prior: float = Field(
        0.7, gt=0, lt=1, description="Prior probability that two problem sizes belong to one application."
    )
    agreement: float = Field(
        0.7,
        ge=0,
        lt=1,
        description="Intervals are narrower by this share where two sizes certainly belong to one application.",
    )
    size_log_sd: float = Field(0.15, ge=0, description="Error of a base curve at another problem size (log s).")
    run_log_sd: float = Field(0.07, gt=0, description="Deviation of a measured runtime from its curve (log s).")
    apart: float = Field(
        0.2, gt=0, lt=1, description="Below this posterior probability two sizes count as two applications."
    )
    is_guarded: bool = Field(
        True,
        description="Whether a speedup that neither size shows is limited, and larger problems lend no curve.",
    )
    own_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Weight of the target's own prediction in the published one (geometric mean); 1: no borrowing.",
    )
    ratio_log_error: float = Field(
        0.25,
        gt=0,
        description="Least difference of a constant ratio and the joint fit for the status shape_moves (log s).",
    )


class ClassSettings(Section):
    """Runtime classes inside a group, which may be problem sizes that no column names."""

    max_classes: int = Field(3, ge=1, le=8, description="Largest number of classes; 1 turns the search off.")
    min_jobs: int = Field(40, ge=4, description="Least number of jobs of a group that is searched.")
    min_share: float = Field(0.1, gt=0, lt=1, description="Least share of the group's jobs in a class.")
    least_factor: float = Field(1.5, gt=1, description="Least ratio of the runtimes of neighbouring classes.")
    valley_errors: float = Field(
        3.0,
        gt=0,
        description="Least number of standard errors by which fewer jobs lie between two classes than about either.",
    )
