"""Settings of the cleaning room: each screen's thresholds, with their units."""

from datetime import datetime
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from pipeline.core.flags import Flag
from pipeline.core.section import Section


class FlurrySettings(Section):
    """Bursts: when one user alone submits faster than everybody else together."""

    min_jobs: int = Field(
        100,
        ge=2,
        description="Jobs of the smallest burst; users with fewer are no part of what it is measured against.",
    )
    remove_weeks: float = Field(
        1.5, gt=0, description="Set aside from this many normal weeks of everybody else's jobs on (machine-weeks)."
    )
    remove_share: float = Field(0.5, ge=0, le=1, description="... if it is this share of all jobs in its span, and")
    remove_alike: float = Field(
        0.5, ge=0, le=1, description="... if this share of its jobs asks for one and the same number of processors, and"
    )
    remove_spread: float = Field(
        1.4,
        ge=1,
        description="... if the 75% over the 25% quantile of its runtimes is no larger; unknown runtimes do not count.",
    )
    spread_floor_s: float = Field(60, ge=0, description="In that ratio a shorter runtime counts as this one (s).")
    suspect_weeks: float = Field(0.15, gt=0, description="Listed, and kept, from this many machine-weeks on.")
    slow_pace: float = Field(
        0.5, gt=0, le=1, description="Slow bursts: submits at this share of everybody else's pace."
    )
    slow_weeks: float = Field(1.0, gt=0, description="A slow burst is listed from this many machine-weeks on.")


class ProbeSettings(Section):
    """Probes: many short jobs, all through the log, by which staff or a monitor sees that the machine responds."""

    min_jobs: int = Field(500, ge=2, description="Jobs of one user, size and application.")
    log_share: float = Field(0.1, gt=0, le=1, description="Share of the log's jobs, at least.")
    active_days: float = Field(0.5, gt=0, le=1, description="Share of its span's days with such a job, at least.")
    min_span_days: float = Field(14, gt=0, description="Days from its first to its last job, at least.")
    max_runtime_s: float = Field(60, gt=0, description="Three in four of its jobs run no longer (s).")
    work_share: float = Field(
        0.1, gt=0, le=1, description="Its share of processor-seconds over its share of jobs, at most."
    )


class CronSettings(Section):
    """Jobs a timer submits at one hour of the day."""

    min_jobs: int = Field(500, ge=2, description="Jobs of one user in one hour of the site's clock.")
    hour_share: float = Field(0.8, gt=0, le=1, description="Share of the user's jobs in that hour, at least.")
    active_days: float = Field(0.5, gt=0, le=1, description="Share of its span's days with such a job, at least.")
    min_span_days: float = Field(14, gt=0, description="Days from its first to its last job, at least.")


class LimitSettings(Section):
    """When a job that did not complete counts as killed at the time it asked for: its runtime is a lower bound."""

    grace_s: float = Field(60, ge=0, description="Its runtime is no further below its request than this (s),")
    grace_share: float = Field(0.05, ge=0, lt=1, description="... nor than this share of the request.")


class RuntimeSettings(Section):
    """Failed starts and hangs: jobs far off those of the same user, size and application."""

    min_jobs: int = Field(20, ge=5, description="Jobs that ran to their end or limit, for a group to tell.")
    max_spread: float = Field(
        4.0, ge=1, description="75% over 25% quantile of their runtimes; a wider group cannot tell."
    )
    factor: float = Field(
        10.0, gt=1, description="An outlier takes this many times the median, or less than its inverse,"
    )
    sigmas: float = Field(4.0, gt=0, description="... and is this many robust standard deviations of log runtime off.")
    least_repeat_factor: float = Field(
        1.25, ge=1, description="Factor that stands for one standard deviation at least, however alike the repeats are."
    )
    start_s: float = Field(10.0, gt=0, description="A failed start takes no longer than this (s).")
    hang_s: float = Field(600.0, ge=0, description="A hang takes longer than this (s), and ends abnormally.")
    habit_share: float = Field(
        0.1, ge=0, le=1, description="Where a larger share of a group runs that long, it is no fault but what it does."
    )
    tell_factor: float = Field(
        30.0, gt=1, description="A group in which a job taking this many times as long would not show tells no hangs."
    )


class EdgeSettings(Section):
    """Where a log's steady part begins and ends."""

    min_jobs: int = Field(1000, ge=2, description="A shorter log has too few gaps to tell an abnormal one by.")
    near_jobs: int = Field(100, ge=1, description="A gap that parts an edge lies among this many at either end,")
    gap_h: float = Field(6.0, gt=0, description="... is longer than this (h),")
    gap_factor: float = Field(5.0, ge=1, description="... and than this many times the gap only 1% exceed.")
    ramp_share: float = Field(
        0.25, gt=0, lt=1, description="The ramp ends when 7 days have this share of the median 7 days' jobs."
    )
    ramp_min_days: float = Field(56, ge=14, description="A shorter log does not tell a ramp (days).")
    ramp_min_week_jobs: int = Field(
        28, ge=1, description="Nor does one with fewer jobs in its median 7 days: chance empties its weeks."
    )
    max_share: float = Field(
        0.05, gt=0, lt=1, description="No edge takes more than this share of the log's jobs: it is not cut then."
    )


class DedicatedSettings(Section):
    """Reserved machine: few users' jobs start on an empty machine, while others wait that would have fitted."""

    max_users: int = Field(2, ge=1, description="Users whose jobs start meanwhile, at most.")
    min_h: float = Field(6.0, gt=0, description="From the first to the last of these starts, at least (h).")
    min_jobs: int = Field(5, ge=2, description="Jobs that start meanwhile, at least.")
    min_kept_out: int = Field(
        5, ge=1, description="Other users with a job that waited throughout and would have fitted, at least."
    )


class DuplicateSettings(Section):
    """The same jobs read from two files under other ids."""

    min_jobs: int = Field(100, ge=2, description="Jobs of a file that stand in another one too, at least, and")
    min_share: float = Field(
        0.95, gt=0.5, le=1, description="... their share of the jobs it has in the time both files cover, at least."
    )


class ClockSettings(Section):
    """A clock set back: a stretch of time stands in the log twice. Seen in the order of ids a server gave out."""

    min_back_s: float = Field(60, gt=0, description="Shortest step back (s).")
    min_jobs: int = Field(5, ge=2, description="Jobs submitted in the repeated stretch, each of both times.")
    max_gap_share: float = Field(
        0.5, gt=0, lt=1, description="Longest gap between them, as a share of the stretch: they fill it, both times."
    )
    disorder_share: float = Field(
        0.05, gt=0, le=1, description="Ids of which more than this share step back do not follow the clock."
    )


class MaximumSettings(Section):
    """Longer than the queue or the machine allows."""

    runtime_s: float | None = Field(None, gt=0, description="Longest runtime the machine allows (s).")
    queue_runtime_s: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="Longest runtime a queue allows (s), by its name."
    )
    grace_s: float = Field(3600, ge=0, description="What a kill and its clean-up may take beyond it (s).")
    grace_share: float = Field(0.1, ge=0, description="... or this share of it, whichever is longer.")
    min_jobs: int = Field(
        100, ge=1, description="Where none is given: jobs with a request by which a queue shows if it enforces them."
    )
    overrun_share: float = Field(
        0.01, ge=0, lt=1, description="A queue with a larger share of them past request and grace enforces none."
    )


def _instant(value: object) -> object:
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("no date or time, as in 2026-03-01 or 2026-03-01T08:00") from None
    return value


Instant = Annotated[datetime, BeforeValidator(_instant)]


def _reason(text: str) -> str:
    if not text.strip():
        raise ValueError("say why: the reason stands in the report")
    return text


class SiteRule(Section):
    """Jobs a site names itself: all that match every value given."""

    reason: Annotated[str, AfterValidator(_reason)] = Field(description="Why; it reaches the report.")
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
            raise ValueError("names no jobs: give burst, user, account, application, queue, since or until")
        return self


class MachineSize(Section):
    """A machine's size from some time on."""

    since: Instant = Field(description="From this time on, in the site's zone.")
    procs: int = Field(gt=0, description="Processors the machine had from then on.")


class CapacitySettings(Section):
    """More processors than the machine has. Its size is site.max_procs; without it nothing is set aside."""

    sizes: tuple[MachineSize, ...] = Field((), description="Times from which on the machine had another size.")
    doubt_share: float = Field(
        0.01, gt=0, le=1, description="Where a larger share of the jobs exceeds the size, the size is wrong, not they."
    )


class DedicatedWindow(Section):
    """A time in which the site had reserved the machine."""

    reason: Annotated[str, AfterValidator(_reason)] = Field(description="Why; it reaches the report.")
    since: Instant = Field(description="Jobs started at or after this time, in the site's zone,")
    until: Instant = Field(description="... and before this time.")


class ElapsedSettings(Section):
    """How far a recorded runtime may lie from end minus start, beside suspension."""

    tolerance_s: float = Field(
        60.0, ge=0, description="Set aside where both differ by more seconds than this, prologue and epilogue included,"
    )
    tolerance_share: float = Field(0.01, ge=0, description="... and by more than this share of the runtime.")


class CleanSettings(Section):
    """Which flags set jobs aside, from which thresholds on, and what the site decides itself."""

    flags_off: tuple[Flag, ...] = Field((), description="Flags not to set.")
    flurry: FlurrySettings = FlurrySettings()
    probe: ProbeSettings = ProbeSettings()
    cron: CronSettings = CronSettings()
    limit: LimitSettings = LimitSettings()
    elapsed: ElapsedSettings = ElapsedSettings()
    suspended_share: float = Field(
        0.1, ge=0, description="Suspension counted as running is set aside from this share of the runtime on."
    )
    runtime: RuntimeSettings = RuntimeSettings()
    edge: EdgeSettings = EdgeSettings()
    dedicated_time: DedicatedSettings = DedicatedSettings()
    dedicated: tuple[DedicatedWindow, ...] = Field((), description="Times in which the machine was reserved.")
    capacity: CapacitySettings = CapacitySettings()
    duplicate: DuplicateSettings = DuplicateSettings()
    clock: ClockSettings = ClockSettings()
    maximum: MaximumSettings = MaximumSettings()
    keep: tuple[SiteRule, ...] = Field((), description="Jobs no screen may set aside.")
    drop: tuple[SiteRule, ...] = Field((), description="Jobs to set aside, whatever the screens say.")
