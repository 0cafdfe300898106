"""Rules of the job-level estimators; the numbers were chosen on the first thirds of archive logs alone."""

import json
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError, printable

if TYPE_CHECKING:
    from pipeline.settings import RunSettings

AGAIN = "run again to learn it anew"


@dataclass(frozen=True, slots=True)
class LongRules:
    """The weights of the second estimate from similar jobs, which remembers longer."""

    rank_power: float = 0.5
    in_session: float = 1.5
    others: float = 1.5


@dataclass(frozen=True, slots=True)
class EstimateRules:
    """How the runtime of a job is estimated at its submit."""

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
    other_gpus: float = 0.1
    """Weight of a job on GPUs of another type, or on none, of one on GPUs."""
    other_trait: float = 0.95
    """Weight of a job of another account, partition, quality of service or job name; pairs of jobs adjust the six."""
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
    counts_every_request: bool = False
    """Whether requests that seem to say nothing of the runtime count, too: the site says so."""

    def of_site(self, settings: "RunSettings") -> "EstimateRules":
        """The rules with what a site's config says."""
        return replace(self, counts_every_request=settings.clean.counts_every_request)


ESTIMATE_RULES = EstimateRules()
"""What a run estimates by, but for what the site says."""


def rules_text(rules: EstimateRules) -> str:
    """The rules as JSON, as a STATE holds them."""
    return json.dumps(asdict(rules), separators=(",", ":"))


def rules_of(text: str, where: str) -> EstimateRules:
    """The rules of a JSON text; InputError, which names the STATE as `where`, if this version has others."""
    try:
        plain = json.loads(text)
        rules: EstimateRules = _read(EstimateRules, plain | {"long": _read(LongRules, plain["long"])})
    except (ValueError, TypeError, KeyError) as error:
        found = printable(f"settings that do not fit ({error})")
        raise InputError(where, found, "settings of this version", AGAIN) from None
    return rules


def _read(kind: type[Any], plain: dict[str, Any]) -> Any:
    """The dataclass of these values; TypeError for a name that it lacks, or a value of another type."""
    rules = kind(**plain)
    for field in fields(rules):
        value, usual = getattr(rules, field.name), field.default
        if type(value) is not type(usual):
            raise TypeError(f"{field.name} = {value!r}")
    return rules
