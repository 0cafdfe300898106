"""Attempts of jobs as a spreadsheet might export them: a CSV with a row for each, with names and units of its own."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime

from tools.simulation.millrace import JobAttempt

HEADER = (
    "Job ID", "User", "group", "account", "Queue Name", "Job Name", "Status", "Submit Time", "Start Time", "End Time",
    "Elapsed (s)", "Time Limit [min]", "CPUs", "Requested CPUs", "requested_mem_kib",
)  # fmt: skip


def table_of_attempts(attempts: Sequence[JobAttempt]) -> str:
    """The rows, in order of number and restart; times are UTC and say so, and what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(_row(one) for one in attempts)
    return out.getvalue()


def _row(one: JobAttempt) -> list[object]:
    number = one.number if one.array_first is None else f"{one.array_first}_{one.array_index}"
    queued_s = one.submit_s if one.queued_s is None else one.queued_s
    instants = [None if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%SZ}" for at in
                (queued_s, one.start_s, one.end_s)]  # fmt: skip
    return [
        number, one.user, one.group, one.group, "batch", one.name, one.state, *instants, one.runtime_s,
        one.job.requested_s / 60, None if one.start_s is None else one.job.procs, one.job.requested_procs,
        one.job.requested_mem_kib,
    ]  # fmt: skip
