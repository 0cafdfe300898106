"""The kinds of planted records: the flag that the record alone requires (None: none), its meaning, and its screen."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """The expected flag of such a record, and its meaning in one line."""

    expected_flag: str | None
    meaning: str
    screen: str | None = None
    """The flag that a screen sets if the log holds enough jobs of that kind or similar ones."""


PLANTED_RECORDS = {
    # should be set aside
    "partial_execution": Kind("partial_execution", "a part of a checkpointed job, after its summary (status 2, 3, 4)"),
    "unfinished": Kind("unfinished", "running when the log ended: a start, no runtime, status -1"),
    "cancelled_before_start": Kind("cancelled_before_start", "status 5, runtime -1 or 0, with and without processors"),
    "zero_runtime": Kind("never_ran", "started, with a runtime of 0"),
    "negative_runtime": Kind("never_ran", "a runtime below -1, as from a clock set back"),
    "never_started": Kind("never_ran", "failed with neither wait nor runtime"),
    "no_submit": Kind("impossible_times", "ran, but its submit time is -1"),
    "starts_before_submit": Kind("impossible_times", "ran, but its wait is negative and not -1"),
    "no_procs": Kind("no_procs", "ran, but neither allocated nor requested processors are known"),
    # odd, and to be kept
    "checkpointed": Kind(None, "the summary line of a job that ran in parts"),
    "allocation_unknown": Kind(None, "allocated processors unknown, requested ones known"),
    "wait_unknown": Kind(None, "ran, but its wait is -1, so its start is unknown"),
    "repeated_number": Kind(None, "another job's number, as from a counter that started again"),
    "past_request": Kind(None, "ran longer than it asked for", "over_limit"),
    "cancelled_running": Kind(None, "status 5 after running part of its way"),
    "failed_start": Kind(None, "status 0 within ten seconds where the application takes minutes", "failed_start"),
    "hang": Kind(None, "ran 12 to 30 times as long as its application does, then was cancelled (status 5)", "hang"),
    "flurry": Kind(None, "one of hundreds of near-identical tiny jobs one user sent within a day", "flurry"),
    "probe": Kind(None, "a one-processor check by staff, every two hours throughout", "probe"),
    "cron": Kind(None, "a nightly script, five jobs between three and four o'clock", "cron"),
}  # fmt: skip
