"""Settings of the job-level estimators; defaults were chosen on the first thirds of archive logs alone."""

from pydantic import Field

from pipeline.core.section import Section


class TableSettings(Section):
    """How the nightly table of estimates is made, for schedulers' hooks that can only look up."""

    served_days: float = Field(
        1.0, ge=0, description="Age at which the table will be read, in days: its quantiles are those of that age."
    )
    of_who: int = Field(300, ge=1, le=400, description="Ended jobs of a user (or account) that a row is made from.")
    of_key: int = Field(32, ge=1, le=48, description="... and of the row's own user, application, queue and sizes.")
    of_request: int = Field(48, ge=1, le=63, description="... and of everybody who requested as much.")
    kept_days: float = Field(1095.0, gt=0, description="Days after which an ended job is forgotten.")
    rank_scale: float = Field(36.4, gt=0, description="Later jobs of the user after which an older one counts less.")
    rank_power: float = Field(1.33, ge=0, description="How fast it counts less then: (1 + later / scale)^-power.")
    age_days: float = Field(400.0, gt=0, description="Days after which what ended counts 1/e.")
    burst_gap_min: float = Field(10.0, gt=0, description="Minutes between submits of one burst of like jobs.")
    burst_rank_power: float = Field(0.7, ge=0, description="A job of a burst takes size^-power of a place.")
    burst_weight_power: float = Field(
        0.25, ge=0, description="Weight of a job of a burst: size^-power; twice the power among everybody's jobs."
    )
    other_request: float = Field(0.525, gt=0, lt=1, description="Weight of a job with another requested runtime.")
    request_power: float = Field(0.35, ge=0, description="... times the ratio of the requests to this power.")
    other_procs: float = Field(0.5, gt=0, lt=1, description="Weight of a job with another number of processors.")
    procs_power: float = Field(0.2, ge=0, description="... times the ratio of the numbers to this power.")
    other_what: float = Field(0.95, gt=0, lt=1, description="Weight of a job of another application.")
    other_queue: float = Field(0.28, gt=0, lt=1, description="Weight of a job of another queue.")
    others: float = Field(2.0, gt=0, description="Weight of everybody's jobs together; the user's latest one has 1.")
    others_scale: float = Field(70.0, gt=0, description="Everybody's later jobs after which one counts 1/e.")
    half_life_days: float = Field(90.0, gt=0, description="Calibration: days in which half of the counts fade.")
    pseudo_jobs: float = Field(
        1000.0, gt=0, description="Calibration: weight of all rows' counts beside those of a class, in jobs."
    )
    prior_jobs: float = Field(300.0, gt=0, description="Calibration: jobs assumed to have been counted at first ...")
    prior_spread: float = Field(0.2, ge=0, le=1, description="... and the share of them spread evenly over the ladder.")
    level_gain: float = Field(10.0, ge=0, description="Calibration: levels move so far against a shortfall at most,")
    level_half_life_days: float = Field(90.0, gt=0, description="... half of which is forgotten in so many days,")
    level_jobs: float = Field(1000.0, gt=0, description="... damped by so many jobs while few are scored,")
    level_speed: float = Field(
        0.5, ge=0, description="... and at most this share of it is made good in the time that feedback takes."
    )


class ForecastSettings(Section):
    """How a job's runtime is estimated at its submit."""

    templates_file: str | None = Field(
        None,
        description="Templates of the method smith, a file of `walltime search-templates`, relative to the current "
        "folder; default: built-in ones.",
    )
    session_gap_min: float = Field(20.0, gt=0, description="Minutes without a submit after which a session has ended.")
    burst_gap_min: float = Field(10.0, gt=0, description="... after which a burst of one user's like jobs has ended.")
    neighbours: int = Field(5, ge=1, le=64, description="Nearest jobs whose runtimes are averaged.")
    deviation_share: float = Field(
        0.0, ge=0, description="Share of the neighbours' deviation added, to underestimate less often."
    )
    rank_scale: float = Field(6.5, gt=0, description="Later jobs of the user after which an older one counts less.")
    rank_power: float = Field(1.33, ge=0, description="How fast it counts less then: (1 + later / scale)^-power.")
    age_days: float = Field(200.0, gt=0, description="Days after which what ended counts 1/e.")
    other_request: float = Field(0.75, gt=0, le=1, description="Weight of a job with another request.")
    request_power: float = Field(0.5, ge=0, description="... times the ratio of the requests to this power.")
    other_procs: float = Field(0.28, gt=0, le=1, description="Weight of a job with another number of processors.")
    procs_power: float = Field(0.2, ge=0, description="... times the ratio of the numbers to this power.")
    other_application: float = Field(0.95, gt=0, le=1, description="Weight of a job of another application.")
    other_group: float = Field(0.88, gt=0, le=1, description="Weight of a job of another group.")
    other_queue: float = Field(0.36, gt=0, le=1, description="Weight of a job of another queue.")
    place_power: float = Field(0.1, ge=0, description="Ratio of the places in their bursts to this power, as a weight.")
    hour_decay: float = Field(0.015, ge=0, description="Weight lost per hour of the day between submits (log per h).")
    session_min: float = Field(50.0, ge=0, description="Minutes back to submits that count as the same sitting.")
    in_session: float = Field(3.5, ge=1, description="Weight of a job of the same sitting.")
    running: float = Field(0.6, ge=0, description="Weight of a job still running, known to take longer than so far.")
    scaling: float = Field(1.0, ge=0, description="Runtimes go with the ratio of the requests to this power.")
    others: float = Field(0.5, ge=0, description="Weight of everybody's jobs together; the user's latest one has 1.")
    others_scale: float = Field(140.0, gt=0, description="Everybody's later jobs after which one counts 1/e.")
    burst_jobs: int = Field(4, ge=1, le=16, description="Jobs remembered of one burst.")
    refit_jobs: int = Field(4000, ge=100, description="Boosting: ended jobs between two fits (fewer at first).")
    window_jobs: int = Field(10_000, ge=500, description="Boosting: latest ended jobs that a fit sees.")
    trees: int = Field(40, ge=1, description="Boosting: trees of a fit.")
    leaves: int = Field(15, ge=2, description="Boosting: leaves of a tree.")
    step_all: float = Field(0.02, ge=0, description="Combination: how far one error moves everybody's log weights.")
    step_user: float = Field(0.1, ge=0, description="... and those of the job's user.")
    step_user_quick: float = Field(0.3, ge=0, description="... and in a second blend, quicker to learn.")
    half_life_all_days: float = Field(90.0, gt=0, description="... and in how many days half of everybody's is undone.")
    half_life_user_days: float = Field(365.0, gt=0, description="... and half of a user's, in days.")
    coverage_step: float = Field(
        0.005, gt=0, lt=1, description="How far one job moves a quantile, in steps of the quantiles it lies between."
    )
    grace_min: float = Field(5.0, ge=0, description="Minutes past its request until a job has really been stopped.")
    seed: int = Field(1, ge=0, description="Seed of the boosting's samples.")
    table: TableSettings = TableSettings()
