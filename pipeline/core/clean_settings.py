"""Settings of cleaning: the thresholds of every screen, with units."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pipeline.core.flags import Flag
from pipeline.core.section import Section


class FlurrySettings(Section):
    """Bursts: one user submits faster than all other users together."""

    min_jobs: int = Field(
        100,
        ge=2,
        description="Least number of jobs of a burst. Users with fewer jobs do not count as others.",
    )
    remove_weeks: float = Field(
        1.5,
        gt=0,
        description="Least lead of a burst that is set aside: normal weeks of all others' jobs (machine-weeks).",
    )
    remove_share: float = Field(
        0.5, ge=0, le=1, description="Least share of such a burst in all jobs submitted during its span."
    )
    remove_alike: float = Field(
        0.5, ge=0, le=1, description="Least share of its jobs that request the same number of processors."
    )
    remove_spread: float = Field(
        1.4,
        ge=1,
        description="Largest ratio of the 75% to the 25% quantile of its runtimes; unknown runtimes do not count.",
    )
    spread_floor_s: float = Field(60, ge=0, description="Shorter runtimes count as this one in that ratio (s).")
    suspect_weeks: float = Field(
        0.15, gt=0, description="Least lead of a burst that is listed and kept (machine-weeks)."
    )
    slow_pace: float = Field(
        0.5, gt=0, le=1, description="Slow bursts: least rate of submits as a share of all others' rate."
    )
    slow_weeks: float = Field(1.0, gt=0, description="Least lead of a slow burst that is listed (machine-weeks).")


class ProbeSettings(Section):
    """Probes: many short jobs throughout the log with which staff or a monitor test whether the machine responds."""

    min_jobs: int = Field(500, ge=2, description="Least number of jobs of one user, size and application.")
    log_share: float = Field(0.1, gt=0, le=1, description="Least share in the jobs of the log.")
    active_days: float = Field(
        0.5, gt=0, le=1, description="Least share of the days of its span on which such a job was submitted."
    )
    min_span_days: float = Field(14, gt=0, description="Least number of days from its first to its last job.")
    max_runtime_s: float = Field(60, gt=0, description="Largest 75% quantile of its runtimes (s).")
    work_share: float = Field(
        0.1, gt=0, le=1, description="Largest ratio of its share of processor-seconds to its share of jobs."
    )


class CronSettings(Section):
    """Jobs that a timer submits at one hour of the day."""

    min_jobs: int = Field(500, ge=2, description="Least number of jobs of one user in one hour of local time.")
    hour_share: float = Field(0.8, gt=0, le=1, description="Least share of the user's jobs in that hour.")
    active_days: float = Field(
        0.5, gt=0, le=1, description="Least share of the days of its span on which such a job was submitted."
    )
    min_span_days: float = Field(14, gt=0, description="Least number of days from its first to its last job.")


class LimitSettings(Section):
    """When a job that did not complete counts as killed at its requested time, so that its runtime is a lower bound."""

    grace_s: float = Field(60, ge=0, description="Largest difference of request and runtime (s).")
    grace_share: float = Field(
        0.05, ge=0, lt=1, description="Largest difference as a share of the request; the smaller bound applies."
    )


class RuntimeSettings(Section):
    """Failed starts and hangs: runtimes far from those of the same user, size and application."""

    min_jobs: int = Field(
        20,
        ge=5,
        description="Least number of a group's jobs that ran to their end or limit; smaller groups are not judged.",
    )
    max_spread: float = Field(
        4.0,
        ge=1,
        description="Largest ratio of the 75% to the 25% quantile of their runtimes; wider groups are not judged.",
    )
    factor: float = Field(
        10.0, gt=1, description="Least factor between the runtime of an outlier and the median, in either direction."
    )
    sigmas: float = Field(
        4.0,
        gt=0,
        description="Least distance of an outlier from the median in robust standard deviations of log runtime.",
    )
    least_repeat_factor: float = Field(
        1.25, ge=1, description="Lower bound of one standard deviation, as a factor of the runtime."
    )
    start_s: float = Field(10.0, gt=0, description="Longest runtime of a failed start (s).")
    hang_s: float = Field(600.0, ge=0, description="Shortest runtime of a hang (s); a hang also ends abnormally.")
    habit_share: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Largest share of a group's jobs that may be outliers; beyond it they are normal for the group.",
    )
    tell_factor: float = Field(
        30.0,
        gt=1,
        description="A group is judged for hangs only if it would reveal jobs that take this many times as long.",
    )


class EdgeSettings(Section):
    """The steady part of a log."""

    min_jobs: int = Field(1000, ge=2, description="Least number of jobs of a log that is searched for abnormal gaps.")
    near_jobs: int = Field(100, ge=1, description="An edge ends at an abnormal gap among this many jobs at either end.")
    gap_h: float = Field(6.0, gt=0, description="Least length of an abnormal gap (h).")
    gap_factor: float = Field(
        5.0, ge=1, description="Least length of an abnormal gap in multiples of the 99% quantile of gaps."
    )
    ramp_share: float = Field(
        0.25,
        gt=0,
        lt=1,
        description="The ramp ends with the first 7 days that have this share of the jobs of a median 7 days.",
    )
    ramp_min_days: float = Field(56, ge=14, description="Least length of a log that is searched for a ramp (days).")
    ramp_min_week_jobs: int = Field(28, ge=1, description="Least number of jobs in a median 7 days of such a log.")
    max_share: float = Field(
        0.05, gt=0, lt=1, description="Largest share of the log's jobs in an edge; a larger edge is not cut."
    )


class DedicatedSettings(Section):
    """Reserved machine: few users' jobs start on an empty machine while other jobs wait that would fit."""

    max_users: int = Field(2, ge=1, description="Largest number of users whose jobs start in the window.")
    min_h: float = Field(6.0, gt=0, description="Least time from the first to the last of these starts (h).")
    min_jobs: int = Field(5, ge=2, description="Least number of jobs that start in the window.")
    min_kept_out: int = Field(
        5, ge=1, description="Least number of other users with a job that waited throughout and would have fitted."
    )


class DuplicateSettings(Section):
    """The same jobs, read from two files under different ids."""

    min_jobs: int = Field(100, ge=2, description="Least number of jobs of a file that another file also contains.")
    min_share: float = Field(
        0.95, gt=0.5, le=1, description="Least share of these in the file's jobs in the time that both files cover."
    )


class ClockSettings(Section):
    """A clock set back: a period occurs twice in the log. It shows in the order of job ids."""

    min_back_s: float = Field(60, gt=0, description="Least step back (s).")
    min_jobs: int = Field(5, ge=2, description="Least number of jobs submitted in the repeated period, each time.")
    max_gap_share: float = Field(
        0.5, gt=0, lt=1, description="Longest gap between these jobs, as a share of the period."
    )
    disorder_share: float = Field(
        0.05,
        gt=0,
        le=1,
        description="If a larger share of ids steps back, ids do not follow the clock and nothing is set aside.",
    )


class MaximumSettings(Section):
    """Jobs that ran longer than the queue or the machine allows."""

    runtime_s: float | None = Field(None, gt=0, description="Longest runtime the machine allows (s).")
    queue_runtime_s: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="Longest runtime that each queue allows (s), by name."
    )
    grace_s: float = Field(3600, ge=0, description="Time beyond the limit that the end of a job may take (s).")
    grace_share: float = Field(0.1, ge=0, description="The same as a share of the limit; the longer one applies.")
    min_jobs: int = Field(
        100,
        ge=1,
        description="Without a stated limit: least number of jobs to judge whether a queue enforces requests.",
    )
    overrun_share: float = Field(
        0.01,
        ge=0,
        lt=1,
        description="A queue where a larger share of these jobs exceeds request and grace does not enforce them.",
    )


def _instant(value: object) -> object:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("not a date or time such as 2026-03-01 or 2026-03-01T08:00") from None
    return value


Instant = Annotated[datetime, BeforeValidator(_instant)]


def _reason(text: str) -> str:
    if not text.strip():
        raise ValueError("give a reason: the report prints it")
    return text


class SiteRule(Section):
    """Jobs that the site names: those that match all given values."""

    reason: Annotated[str, AfterValidator(_reason)] = Field(description="The reason; it is printed in the report.")
    burst: str | None = Field(None, description="A burst's id, as the table of bursts has it.")
    user: str | None = Field(None, description="Who submitted them.")
    account: str | None = Field(None, description="The account charged.")
    application: str | None = Field(None, description="What they ran.")
    queue: str | None = Field(None, description="The queue they waited in.")
    since: Instant | None = Field(None, description="Submitted at or after this time, in the site's zone.")
    until: Instant | None = Field(None, description="Submitted before this time, in the site's zone.")

    @model_validator(mode="after")
    def _names_something(self) -> "SiteRule":
        if not self.model_dump(exclude={"reason"}, exclude_none=True):
            raise ValueError("matches every job: give burst, user, account, application, queue, since or until")
        return self


class MachineSize(Section):
    """A change of the size of the machine."""

    since: Instant = Field(description="From this time on, in the site's zone.")
    procs: int = Field(gt=0, description="Processors the machine had from then on.")


class CapacitySettings(Section):
    """Jobs larger than the machine. Its size is site.max_procs; without it nothing is set aside."""

    sizes: tuple[MachineSize, ...] = Field((), description="Changes of the size of the machine.")
    doubt_share: float = Field(
        0.01,
        gt=0,
        le=1,
        description="Where a larger share of jobs exceeds the size, the size counts as wrong and no job is set aside.",
    )


class DedicatedWindow(Section):
    """A window in which the site had reserved the machine."""

    reason: Annotated[str, AfterValidator(_reason)] = Field(description="The reason; it is printed in the report.")
    since: Instant = Field(description="Start of the window, included, in the site's zone.")
    until: Instant = Field(description="End of the window, excluded, in the site's zone.")


class ElapsedSettings(Section):
    """How far a recorded runtime may lie from end minus start, beside suspension."""

    tolerance_s: float = Field(
        60.0, ge=0, description="Set aside where both differ by more seconds than this, prologue and epilogue included,"
    )
    tolerance_share: float = Field(0.01, ge=0, description="... and by more than this share of the runtime.")


class CleanSettings(Section):
    """Which flags set jobs aside, their thresholds, and the rules of the site."""

    flags_off: tuple[Flag, ...] = Field((), description="Flags not to set.")
    flurry: FlurrySettings = FlurrySettings()
    probe: ProbeSettings = ProbeSettings()
    cron: CronSettings = CronSettings()
    limit: LimitSettings = LimitSettings()
    elapsed: ElapsedSettings = ElapsedSettings()
    suspended_share: float = Field(
        0.1, ge=0, description="Share of suspension that the log counts as runtime above which a job is set aside."
    )
    runtime: RuntimeSettings = RuntimeSettings()
    edge: EdgeSettings = EdgeSettings()
    dedicated_time: DedicatedSettings = DedicatedSettings()
    dedicated: tuple[DedicatedWindow, ...] = Field((), description="Windows in which the machine was reserved.")
    capacity: CapacitySettings = CapacitySettings()
    duplicate: DuplicateSettings = DuplicateSettings()
    clock: ClockSettings = ClockSettings()
    maximum: MaximumSettings = MaximumSettings()
    keep: tuple[SiteRule, ...] = Field((), description="Jobs that no screen may set aside.")
    drop: tuple[SiteRule, ...] = Field((), description="Jobs to set aside in any case.")
    block_jobs: int = Field(
        1_000_000,
        ge=1_000,
        description="A log of more than one and a half times as many jobs is cleaned in blocks of about as many.",
    )
