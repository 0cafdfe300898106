"""Sentences on what an SWF log does differently, for the report."""

from pipeline.core.settings import IngestSettings
from pipeline.ingest.formats.swf.dialects import DIALECTS, Dialect
from pipeline.ingest.formats.swf.status import status_notes
from pipeline.ingest.reader import Remarks


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times and states."""
    n_jobs = remarks["jobs"]
    said = [
        (remarks["jobs_with_bad_start_time"], "a UnixStartTime header is no number and is left alone"),
        (
            remarks["jobs_without_start_time"],
            f"no UnixStartTime header holds for {remarks['jobs_without_start_time']} jobs: their times count from the "
            "log's own zero (if that is not 1970-01-01 UTC, instants are wrong by a constant; durations are not)",
        ),
        (remarks["backward_submits"], f"submit times go backwards {remarks['backward_submits']} times in file order"),
        (n_jobs and not remarks["starts"], "no wait times: start times are unknown (submit times may be start times)"),
        (
            0 < remarks["starts"] < n_jobs,
            f"{n_jobs - remarks['starts']} jobs have no wait or submit time: their start is unknown",
        ),
        (remarks["long_lines"], f"{remarks['long_lines']} lines have more than 18 fields: the others are left alone"),
        (remarks["short_lines"], f"{remarks['short_lines']} lines have fewer than 18 fields: the missing are unknown"),
        (remarks["floored"], f"{remarks['floored']} instants, counts or ids have a fraction and are floored"),
        (
            remarks["no_line_end"],
            "a last line has no line end: it may have been cut, or is still being written; read the log again when it "
            'is whole, or set ingest.last_line = "take" if it is',
        ),
        (settings.swf_fields, f"fields read by a dialect: {_moves(settings)}"),
    ]
    return [
        *status_notes(remarks, settings),
        *(sentence for holds, sentence in said if holds),
        *(_dialect_note(dialect, remarks) for dialect in DIALECTS if remarks[f"dialect {dialect.name}"]),
    ]


def _dialect_note(dialect: Dialect, remarks: Remarks) -> str:
    """What the extra fields of a dialect's lines became."""
    return (
        f"{remarks[f'dialect {dialect.name}']} lines have the 21 fields of {dialect.name}: fields 19 to 21 give "
        f"{', '.join(dialect.columns)}; {dialect.without_column} have no column and are left out; "
        f"{', '.join(dialect.left_out)} are unknown, because their fields hold something else in this dialect"
    )


def _moves(settings: IngestSettings) -> str:
    return ", ".join(f"{name} = {number}" for name, number in sorted(settings.swf_fields.items()))
