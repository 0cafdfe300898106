"""The window of a rerun: what a run at its end would have known, and every job counted."""

import pyarrow as pa
import pytest

from pipeline.arrays import proc_seconds
from pipeline.errors import InputError
from pipeline.ingest import OUTSIDE, within_window
from pipeline.report import Report, Tally
from pipeline.tables import JOBS


def jobs_of(*rows: tuple[int | None, int | None, float | None]) -> pa.Table:
    """Jobs of four processors by submit, end and runtime."""
    return JOBS.build(
        site=["here"] * len(rows),
        job_id=[str(place) for place in range(len(rows))],
        restart=[0] * len(rows),
        submit_s=[row[0] for row in rows],
        end_s=[row[1] for row in rows],
        runtime_s=[row[2] for row in rows],
        procs=[4] * len(rows),
        source_file=["log"] * len(rows),
        source_line=list(range(1, len(rows) + 1)),
    )


def cut(jobs: pa.Table, window: tuple[int | None, int | None]) -> tuple[list[str], Report]:
    work = float(proc_seconds(jobs).sum())
    lines = Tally(jobs.num_rows + 3, work)
    report = Report("ingest", "line", lines, Tally(jobs.num_rows, work), {"comment": Tally(3)}, {"jobs": jobs.num_rows})
    parts, changed = within_window((jobs.slice(start, 3) for start in (0, 3, 6)), report.check, window)
    return [job_id for part in parts for job_id in part["job_id"].to_pylist()], changed()


ROWS = ((100, 150, 50.0), (200, 250, 50.0), (290, 310, 20.0), (300, 350, 50.0), (250, None, 10.0), (250, None, 60.0),
        (None, 220, 5.0), (260, None, None))  # fmt: skip


@pytest.mark.parametrize(
    ("window", "left"),
    [
        ((None, None), list("01234567")),
        ((200, 300), ["1", "4", "7"]),
        ((200, 301), ["1", "4", "7"]),
        ((201, None), ["2", "3", "4", "5", "7"]),
        ((None, 151), ["0"]),
        ((None, 150), None),
    ],
)
def test_a_window_holds_what_was_submitted_and_known_to_have_ended_in_it(
    window: tuple[int | None, int | None], left: list[str] | None
) -> None:
    jobs = jobs_of(*ROWS)
    if left is None:
        with pytest.raises(InputError, match=r"8 jobs, none of them .* from any time to 1970-01-01T00:02Z"):
            cut(jobs, window)
        return
    found, report = cut(jobs, window)
    assert found == left
    assert report.kept.rows == len(left) == report.facts["jobs"]
    assert report.set_aside.get(OUTSIDE, Tally()).rows == len(ROWS) - len(left)
    assert report.seen == Tally(len(ROWS) + 3, 4 * 245.0)


def test_ends_of_the_log_are_those_of_the_window() -> None:
    _, report = cut(jobs_of(*ROWS), (200, 300))
    assert (report.facts["first_submit_s"], report.facts["last_submit_s"]) == (200, 260)
