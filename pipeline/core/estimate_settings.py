"""Settings of the job-level estimators; defaults were chosen on the first thirds of archive logs alone."""

from pydantic import Field

from pipeline.core.section import Section


class TableSettings(Section):
    """How the nightly table of estimates is made, for hooks of schedulers that can only look up values."""

    served_days: float = Field(
        1.0, ge=0, description="Age of the table when it is read (days); quantiles are calibrated for that age."
    )
    of_who: int = Field(
        300, ge=1, le=400, description="Largest number of ended jobs of the user (or account) in a row."
    )
    of_key: int = Field(
        32,
        ge=1,
        le=48,
        description="Largest number of ended jobs with the row's own user, application, queue and sizes.",
    )
    of_request: int = Field(
        48, ge=1, le=63, description="Largest number of ended jobs of all users with the same request."
    )
    kept_days: float = Field(1095.0, gt=0, description="Time after which an ended job is forgotten (days).")
    rank_scale: float = Field(36.4, gt=0, description="Weight by rank: scale of the number of later jobs of the user.")
    rank_power: float = Field(1.33, ge=0, description="Weight by rank: power in (1 + later / scale)^-power.")
    age_days: float = Field(400.0, gt=0, description="Weight by age: time after which a job counts 1/e (days).")
    burst_gap_min: float = Field(
        10.0, gt=0, description="Longest time between submits of one burst of similar jobs (min)."
    )
    burst_rank_power: float = Field(
        0.7, ge=0, description="A job of a burst counts size^-power in the rank of older jobs."
    )
    burst_weight_power: float = Field(
        0.25, ge=0, description="Weight of a job of a burst: size^-power; twice the power among all users' jobs."
    )
    other_request: float = Field(0.525, gt=0, lt=1, description="Weight of a job with another requested runtime.")
    request_power: float = Field(0.35, ge=0, description="Power of the ratio of the requests in that weight.")
    other_procs: float = Field(0.5, gt=0, lt=1, description="Weight of a job with another number of processors.")
    procs_power: float = Field(0.2, ge=0, description="Power of the ratio of the processors in that weight.")
    other_what: float = Field(0.95, gt=0, lt=1, description="Weight of a job of another application.")
    other_queue: float = Field(0.28, gt=0, lt=1, description="Weight of a job of another queue.")
    others: float = Field(2.0, gt=0, description="Weight of all users' jobs together; the user's latest job has 1.")
    others_scale: float = Field(
        70.0, gt=0, description="Number of later jobs of all users after which a job counts 1/e."
    )
    half_life_days: float = Field(90.0, gt=0, description="Calibration: half-life of the counts (days).")
    pseudo_jobs: float = Field(
        1000.0, gt=0, description="Calibration: weight of the counts of all rows beside those of a class (jobs)."
    )
    prior_jobs: float = Field(300.0, gt=0, description="Calibration: weight of the prior counts (jobs).")
    prior_spread: float = Field(
        0.2, ge=0, le=1, description="Calibration: share of the prior counts that is uniform over the levels."
    )
    level_gain: float = Field(10.0, ge=0, description="Calibration: gain of the feedback on a coverage shortfall.")
    level_half_life_days: float = Field(90.0, gt=0, description="Calibration: half-life of the shortfall (days).")
    level_jobs: float = Field(
        1000.0, gt=0, description="Calibration: number of scored jobs at which the feedback has half its gain."
    )
    level_speed: float = Field(
        0.5, ge=0, description="Calibration: largest share of the shortfall corrected within one feedback delay."
    )


class ForecastSettings(Section):
    """How the runtime of a job is estimated at its submit."""

    templates_file: str | None = Field(
        None,
        description="Templates of the method smith, a file of `walltime search-templates`, relative to the current "
        "folder; default: built-in ones.",
    )
    learn_jobs: int = Field(
        1_000_000,
        ge=1,
        description="Least number of newest jobs that are learnt; at most half as many more are learnt.",
    )
    session_gap_min: float = Field(
        20.0, gt=0, description="Time without a submit after which a session has ended (min)."
    )
    burst_gap_min: float = Field(
        10.0, gt=0, description="Time without a submit after which a burst of one user's similar jobs has ended (min)."
    )
    neighbours: int = Field(5, ge=1, le=64, description="Number of nearest jobs whose runtimes are averaged.")
    deviation_share: float = Field(
        0.0, ge=0, description="Share of the neighbours' deviation that is added to underestimate less often."
    )
    rank_scale: float = Field(6.5, gt=0, description="Weight by rank: scale of the number of later jobs of the user.")
    rank_power: float = Field(1.33, ge=0, description="Weight by rank: power in (1 + later / scale)^-power.")
    age_days: float = Field(200.0, gt=0, description="Weight by age: time after which a job counts 1/e (days).")
    other_request: float = Field(0.75, gt=0, le=1, description="Weight of a job with another request.")
    request_power: float = Field(0.5, ge=0, description="Power of the ratio of the requests in that weight.")
    other_procs: float = Field(0.28, gt=0, le=1, description="Weight of a job with another number of processors.")
    procs_power: float = Field(0.2, ge=0, description="Power of the ratio of the processors in that weight.")
    other_application: float = Field(0.95, gt=0, le=1, description="Weight of a job of another application.")
    other_group: float = Field(0.88, gt=0, le=1, description="Weight of a job of another group.")
    other_queue: float = Field(0.36, gt=0, le=1, description="Weight of a job of another queue.")
    place_power: float = Field(
        0.1, ge=0, description="Power of the ratio of the positions in their bursts, in the weight of a job."
    )
    hour_decay: float = Field(
        0.015, ge=0, description="Decay of the weight per hour between the submits' times of day (log per h)."
    )
    session_min: float = Field(50.0, ge=0, description="Time back to submits that count as the same session (min).")
    in_session: float = Field(3.5, ge=1, description="Factor on the weight of a job of the same session.")
    running: float = Field(0.6, ge=0, description="Weight of a running job, whose time so far is a lower bound.")
    scaling: float = Field(1.0, ge=0, description="Power of the ratio of the requests with which runtimes are scaled.")
    others: float = Field(0.5, ge=0, description="Weight of all users' jobs together; the user's latest job has 1.")
    others_scale: float = Field(
        140.0, gt=0, description="Number of later jobs of all users after which a job counts 1/e."
    )
    burst_jobs: int = Field(4, ge=1, le=16, description="Number of jobs remembered of one burst.")
    refit_jobs: int = Field(
        4000, ge=100, description="Boosting: number of ended jobs between two fits (fewer at first)."
    )
    window_jobs: int = Field(10_000, ge=500, description="Boosting: number of latest ended jobs in a fit.")
    trees: int = Field(40, ge=1, description="Boosting: number of trees of a fit.")
    leaves: int = Field(15, ge=2, description="Boosting: number of leaves of a tree.")
    step_all: float = Field(0.02, ge=0, description="Combination: learning rate of the log weights of all users.")
    step_user: float = Field(0.1, ge=0, description="Combination: learning rate of the log weights of the job's user.")
    step_user_quick: float = Field(0.3, ge=0, description="Combination: the same in the second, faster blend.")
    half_life_all_days: float = Field(
        90.0, gt=0, description="Combination: half-life of the log weights of all users (days)."
    )
    half_life_user_days: float = Field(
        365.0, gt=0, description="Combination: half-life of a user's log weights (days)."
    )
    half_life_lead_days: float = Field(
        60.0, gt=0, description="Combination: half-life of the lead of `alike` over the combination (days)."
    )
    lead_errors: float = Field(
        5.0,
        gt=0,
        description="Combination: lead of `alike` (standard errors) at which it answers alone; in part below.",
    )
    coverage_step: float = Field(
        0.005, gt=0, lt=1, description="Step of a quantile's calibration per job, in steps of neighbouring quantiles."
    )
    grace_min: float = Field(5.0, ge=0, description="Time past its request within which a job is stopped (min).")
    seed: int = Field(1, ge=0, description="Seed of the random samples of boosting.")
    table: TableSettings = TableSettings()
