"""What field 11 of an SWF file holds: the standard's status or an exit code, decided for each file by itself.

A log of exit codes (Sandia's) has many values above 5 among those that are not 0, and more zeros than ones, because 0
is success there. A standard log has more ones than zeros, because 1 is success, and a value outside -1 to 5 is a
damaged line. One such line decides nothing.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.arrays import Bools, Ints, arrow, integers, replaced
from pipeline.errors import printable
from pipeline.ingest.formats.swf.fields import DIALECTS, Dialect
from pipeline.ingest.reader import NO_LINE_END, PART, Remarks, categories
from pipeline.settings import IngestSettings

STATES = {0: "FAILED", 1: "COMPLETED", 2: "PARTIAL", 3: "PARTIAL", 4: "PARTIAL", 5: "CANCELLED"}
"""The standard's status field in Slurm's words; 2, 3 and 4 are partial executions of a checkpointed job."""

LEAST_SHARE = 0.01
"""Of the values that are neither 0 nor -1, those outside the standard's range in a log of exit codes: 0.105 in the
Sandia log; 0 in the archive's 19 other logs; 0.000004 in one of 281,337 jobs with one damaged line."""

_SHOWN_LINES, _SHOWN_FILES = 3, 3
_ZERO, _ONE, _OTHER, _OUTSIDE, _LINE = "status 0", "status 1", "status other", "status outside", "status line"
_SEPARATOR = "\0"


def count_statuses(status: Ints, is_null: Bools, lines: Ints, label: str, remarks: Remarks, n_shown: int) -> int:
    """Tally a chunk's statuses under its file's label, and its first lines outside the range; returns lines shown."""
    outside = ~is_null & ((status < -1) | (status > 5))
    counts = {_ZERO: status == 0, _ONE: status == 1, _OTHER: (status > 1) | (status < -1), _OUTSIDE: outside}
    for name, mask in counts.items():
        if n := int(np.count_nonzero(mask & ~is_null)):
            remarks[_key(name, label)] += n
    shown = lines[outside][: max(_SHOWN_LINES - n_shown, 0)].tolist()
    for line in shown:
        remarks[_key(_LINE, label, str(line))] += 1
    return n_shown + len(shown)


def settle(jobs: pa.Table, remarks: Remarks, settings: IngestSettings) -> pa.Table:
    """State from the status number that `read` left in exit_code, which only the whole of its file tells how to read.

    Read as an exit code: 0 COMPLETED, any other FAILED, and exit_code keeps it. Read as the standard says: STATES,
    another number as text; exit_code is null, and PART is 2, 3 or 4 in partial executions.
    """
    numbers = jobs["exit_code"].combine_chunks()
    status, is_null = integers(jobs["exit_code"])
    is_code = _rows_of_exit_codes(jobs, remarks, settings)
    state = categories(numbers, _exit_code_state if is_code.all() else lambda number: STATES.get(number, str(number)))
    if is_code.any() and not is_code.all():
        of_code = categories(numbers, _exit_code_state).cast(pa.string())
        state = pc.if_else(arrow(is_code), of_code, state.cast(pa.string())).dictionary_encode()
    part = np.where(~is_null & ~is_code & (status >= 2) & (status <= 4), status, 0).astype(np.int32)
    jobs = replaced(jobs, "exit_code", arrow(status, is_null | ~is_code))
    return replaced(jobs, "state", state).append_column(PART, arrow(part))


def _exit_code_state(number: int) -> str:
    return "FAILED" if number else "COMPLETED"


def status_notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """How field 11 was read where that was decided by its values, and which lines disagree with that."""
    if settings.swf_status != "auto":
        return []
    with_outside = _labels(remarks, _OUTSIDE)
    codes = [label for label in with_outside if _holds_exit_codes(label, remarks)]
    notes = [_exit_code_note(codes, remarks)] if codes else []
    others = [label for label in with_outside if label not in codes]
    notes += [_standard_note(label, remarks) for label in others[:_SHOWN_FILES]]
    if len(others) > _SHOWN_FILES:
        notes.append(f"{len(others) - _SHOWN_FILES} more files hold status values outside -1 to 5")
    known = {*_labels(remarks, _ZERO), *_labels(remarks, _ONE), *_labels(remarks, _OTHER)}
    if codes and known - set(codes):
        notes.append(
            f"status is read as an exit code in {len(codes)} files and as the standard status in "
            f"{len(known - set(codes))}: if they are one log, set swf_status"
        )
    return notes


def _holds_exit_codes(label: str, remarks: Remarks) -> bool:
    zeros, ones, other, outside = (remarks[_key(name, label)] for name in (_ZERO, _ONE, _OTHER, _OUTSIDE))
    return outside > 0 and outside >= LEAST_SHARE * (ones + other) and zeros >= ones


def _rows_of_exit_codes(jobs: pa.Table, remarks: Remarks, settings: IngestSettings) -> Bools:
    """Which rows come from a file whose field 11 holds exit codes."""
    if settings.swf_status != "auto":
        return np.full(jobs.num_rows, settings.swf_status == "exit_code")
    labels = [label for label in _labels(remarks, _OUTSIDE) if _holds_exit_codes(label, remarks)]
    if not labels:
        return np.zeros(jobs.num_rows, np.bool_)
    is_in = pc.is_in(jobs["source_file"].cast(pa.string()), value_set=pa.array(labels, pa.string()))
    rows: Bools = is_in.to_numpy()
    return rows


def _exit_code_note(labels: list[str], remarks: Remarks) -> str:
    n_outside = sum(remarks[_key(_OUTSIDE, label)] for label in labels)
    named = ", ".join(map(printable, labels[:_SHOWN_FILES])) + (", ..." if len(labels) > _SHOWN_FILES else "")
    return (
        f"{n_outside} status values of {named} lie outside -1 to 5: the field is read as an exit code there, "
        '0 completed and any other failed (swf_status = "standard" overrules)'
    )


def _standard_note(label: str, remarks: Remarks) -> str:
    """The lines of a standard file whose status the standard does not know."""
    n_lines, prefix = remarks[_key(_OUTSIDE, label)], _key(_LINE, label) + _SEPARATOR
    shown = sorted(int(key.removeprefix(prefix)) for key in remarks if key.startswith(prefix))
    return (
        f"{n_lines} lines of {printable(label)} have a status outside -1 to 5 (first: line "
        f"{', '.join(map(str, shown))}); the other lines say that the field is the standard status "
        '(swf_status = "exit_code" overrules)'
    )


def _labels(remarks: Remarks, name: str) -> list[str]:
    prefix = name + _SEPARATOR
    return sorted(key.removeprefix(prefix) for key in remarks if key.startswith(prefix))


def _key(*parts: str) -> str:
    return _SEPARATOR.join(parts)


def notes(remarks: Remarks, settings: IngestSettings) -> list[str]:
    """One sentence for each thing a person should know before trusting times and states."""
    n_jobs = remarks["jobs"]
    moves = ", ".join(f"{name} = {number}" for name, number in sorted(settings.columns.items()))
    said = [
        (remarks["jobs_with_bad_start_time"], "a UnixStartTime header is no number and is left alone"),
        (
            remarks["jobs_without_start_time"],
            f"no UnixStartTime header holds for {remarks['jobs_without_start_time']} jobs: their times count from the "
            "log's own zero (if that is not 1970-01-01 UTC, instants are wrong by a constant; durations are not)",
        ),
        (
            remarks["absolute_submits"],
            f"the submits of {remarks['absolute_submits']} jobs count from 1970 already: UnixStartTime is not added",
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
        (remarks["no_line_end"], NO_LINE_END),
        (moves, f"fields read by a dialect: {moves}"),
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
