"""Rules of the job-level estimators; the numbers were chosen on the first thirds of archive logs alone."""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from pipeline.errors import InputError, printable

AGAIN = "run again to learn it anew"


@dataclass(frozen=True, slots=True)
class TableRules:
    """How the nightly table of estimates is made, for hooks of schedulers that can only look up values."""

    served_days: float = 1.0
    """Age of the table when it is read (days); quantiles are calibrated for that age."""
    of_who: int = 300
    """Largest number of ended jobs of the user (or account) in a row."""
    of_key: int = 32
    """Largest number of ended jobs with the row's own user, application, queue and sizes."""
    of_request: int = 48
    """Largest number of ended jobs of all users with the same request."""
    kept_days: float = 1095.0
    """Time after which an ended job is forgotten (days)."""
    rank_scale: float = 36.4
    """Weight by rank: scale of the number of later jobs of the user."""
    rank_power: float = 1.33
    """Weight by rank: power in (1 + later / scale)^-power."""
    age_days: float = 400.0
    """Weight by age: time after which a job counts 1/e (days)."""
    burst_gap_min: float = 10.0
    """Longest time between submits of one burst of similar jobs (min)."""
    burst_rank_power: float = 0.7
    """A job of a burst counts size^-power in the rank of older jobs."""
    burst_weight_power: float = 0.25
    """Weight of a job of a burst: size^-power; twice the power among all users' jobs."""
    other_request: float = 0.525
    """Weight of a job with another requested runtime."""
    request_power: float = 0.35
    """Power of the ratio of the requests in that weight."""
    other_procs: float = 0.5
    """Weight of a job with another number of processors."""
    procs_power: float = 0.2
    """Power of the ratio of the processors in that weight."""
    other_what: float = 0.95
    """Weight of a job of another application."""
    other_queue: float = 0.28
    """Weight of a job of another queue."""
    others: float = 2.0
    """Weight of all users' jobs together; the user's latest job has 1."""
    others_scale: float = 70.0
    """Number of later jobs of all users after which a job counts 1/e."""
    half_life_days: float = 90.0
    """Calibration: half-life of the counts (days)."""
    pseudo_jobs: float = 1000.0
    """Calibration: weight of the counts of all rows beside those of a class (jobs)."""
    prior_jobs: float = 300.0
    """Calibration: weight of the prior counts (jobs)."""
    prior_spread: float = 0.2
    """Calibration: share of the prior counts that is uniform over the levels."""
    level_gain: float = 10.0
    """Calibration: gain of the feedback on a coverage shortfall."""
    level_half_life_days: float = 90.0
    """Calibration: half-life of the shortfall (days)."""
    level_jobs: float = 1000.0
    """Calibration: number of scored jobs at which the feedback has half its gain."""
    level_speed: float = 0.5
    """Calibration: largest share of the shortfall corrected within one feedback delay."""


@dataclass(frozen=True, slots=True)
class LongRules:
    """The weights of the second estimate from similar jobs, which remembers longer."""

    rank_power: float = 0.5
    age_days: float = 800.0
    in_session: float = 1.5
    others: float = 1.5


@dataclass(frozen=True, slots=True)
class EstimateRules:
    """How the runtime of a job is estimated at its submit."""

    templates_file: str | None = None
    """Templates of the method smith, a file of `walltime backtest --templates`, relative to the folder in
    which it runs; default: built-in ones."""
    learn_jobs: int = 1_000_000
    """Least number of newest jobs that are learnt; at most half as many more are learnt."""
    session_gap_min: float = 20.0
    """Time without a submit after which a session has ended (min)."""
    burst_gap_min: float = 10.0
    """Time without a submit after which a burst of one user's similar jobs has ended (min)."""
    neighbours: int = 5
    """Number of nearest jobs whose runtimes are averaged."""
    deviation_share: float = 0.0
    """Share of the neighbours' deviation that is added to underestimate less often."""
    rank_scale: float = 6.5
    """Weight by rank: scale of the number of later jobs of the user."""
    rank_power: float = 1.33
    """Weight by rank: power in (1 + later / scale)^-power."""
    age_days: float = 200.0
    """Weight by age: time after which a job counts 1/e (days)."""
    other_request: float = 0.75
    """Weight of a job with another request."""
    request_power: float = 0.5
    """Power of the ratio of the requests in that weight."""
    other_procs: float = 0.28
    """Weight of a job with another number of processors."""
    procs_power: float = 0.2
    """Power of the ratio of the processors in that weight."""
    other_application: float = 0.95
    """Weight of a job of another application."""
    other_group: float = 0.88
    """Weight of a job of another group."""
    other_queue: float = 0.36
    """Weight of a job of another queue."""
    other_memory: float = 0.5
    """Weight of a job with another requested memory."""
    other_trait: float = 0.95
    """Weight of a job of another account, partition, quality of service or job name; pairs of jobs adjust the five."""
    place_power: float = 0.1
    """Power of the ratio of the positions in their bursts, in the weight of a job."""
    hour_decay: float = 0.015
    """Decay of the weight per hour between the submits' times of day (log per h)."""
    session_min: float = 50.0
    """Time back to submits that count as the same session (min)."""
    in_session: float = 3.5
    """Factor on the weight of a job of the same session."""
    running: float = 0.6
    """Weight of a running job, whose time so far is a lower bound."""
    others: float = 0.5
    """Weight of all users' jobs together; the user's latest job has 1."""
    others_scale: float = 140.0
    """Number of later jobs of all users after which a job counts 1/e."""
    burst_jobs: int = 4
    """Number of jobs remembered of one burst."""
    coverage_step: float = 0.005
    """Step of a quantile's calibration per job, in steps of neighbouring quantiles."""
    grace_min: float = 5.0
    """Time past its request within which a job is stopped (min)."""
    long: LongRules = LongRules()
    table: TableRules = TableRules()


ESTIMATE_RULES = EstimateRules()
"""What a run estimates by."""


def rules_text(rules: EstimateRules) -> str:
    """The rules as JSON, as a STATE holds them."""
    return json.dumps(asdict(rules), separators=(",", ":"))


def rules_of(text: str, where: str) -> EstimateRules:
    """The rules of a JSON text; InputError, which names the STATE as `where`, if this version has others."""
    try:
        plain = json.loads(text)
        nested = {name: _read(kind, plain[name]) for name, kind in (("long", LongRules), ("table", TableRules))}
        rules: EstimateRules = _read(EstimateRules, plain | nested)
    except (ValueError, TypeError, KeyError) as error:
        found = printable(f"settings that do not fit ({error})")
        raise InputError(where, found, "settings of this version", AGAIN) from None
    return rules


def _read(kind: type[Any], plain: dict[str, Any]) -> Any:
    """The dataclass of these values; TypeError for a name that it lacks, or a value of another type."""
    rules = kind(**plain)
    for field in fields(rules):
        value, usual = getattr(rules, field.name), field.default
        if type(value) is not type(usual) and not (usual is None and isinstance(value, str)):
            raise TypeError(f"{field.name} = {value!r}")
    return rules
