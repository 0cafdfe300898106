"""Sentences on what an SWF log does differently, for the report."""

from pipeline.core.settings import IngestSettings
from pipeline.ingest.reader import Remarks


def notes(remarks: Remarks, settings: IngestSettings, is_exit_code: bool) -> list[str]:
    """One sentence for each thing a person should know before trusting times and states."""
    n_jobs = remarks["jobs"]
    said = [
        (remarks["jobs_with_bad_start_time"], "a UnixStartTime header is no number and is left alone"),
        (
            remarks["jobs_without_start_time"],
            f"no UnixStartTime header holds for {remarks['jobs_without_start_time']} jobs: their times count from the "
            "log's own zero (if that is not 1970-01-01 UTC, instants are wrong by a constant; durations are not)",
        ),
        (is_exit_code and settings.swf_status == "auto", _exit_code_note(remarks)),
        (remarks["backward_submits"], f"submit times go backwards {remarks['backward_submits']} times in file order"),
        (n_jobs and not remarks["starts"], "no wait times: start times are unknown (submit times may be start times)"),
        (
            0 < remarks["starts"] < n_jobs,
            f"{n_jobs - remarks['starts']} jobs have no wait or submit time: their start is unknown",
        ),
        (remarks["long_lines"], f"{remarks['long_lines']} lines have more than 18 fields: the others are left alone"),
        (remarks["short_lines"], f"{remarks['short_lines']} lines have fewer than 18 fields: the missing are unknown"),
        (remarks["floored"], f"{remarks['floored']} instants, counts or ids have a fraction and are floored"),
        (settings.swf_fields, f"fields read by a dialect: {_moves(settings)}"),
    ]
    return [sentence for holds, sentence in said if holds]


def _exit_code_note(remarks: Remarks) -> str:
    return (
        f"{remarks['strange_statuses']} status values lie outside -1 to 5: the field is read as an exit code, "
        '0 completed and any other failed (swf_status = "standard" overrules)'
    )


def _moves(settings: IngestSettings) -> str:
    return ", ".join(f"{name} = {number}" for name, number in sorted(settings.swf_fields.items()))
