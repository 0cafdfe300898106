"""Lower bounds: which runtimes the log could not see the end of."""

from typing import Any

import pytest

from pipeline.clean import clean
from pipeline.schema import Flag
from pipeline.settings import CleanSettings
from tests.rows import flags, jobs_of


def bound_of(**row: Any) -> bool | None:
    return clean(jobs_of([row]), CleanSettings())[0].column("is_lower_bound")[0].as_py()


@pytest.mark.parametrize(
    ("row", "bound"),
    [
        ({}, False),
        ({"state": "TIMEOUT"}, True),
        ({"state": "DEADLINE"}, True),
        # A completed job is whole, however long it asked for.
        ({"requested_s": 100.0}, False),
        ({"requested_s": 50.0}, False),
        # 100 s of 102, of 105 and of 106: the grace is 5% of the request.
        ({"state": "CANCELLED", "requested_s": 102.0}, True),
        ({"state": "FAILED", "requested_s": 105.0}, True),
        ({"state": "FAILED", "requested_s": 106.0}, False),
        ({"state": "FAILED", "requested_s": 20.0}, True),
        ({"state": "FAILED", "requested_s": None}, False),
        ({"state": "FAILED", "requested_s": -1.0}, False),
        # A first limit of ours is raised before a job reaches it, and stops none.
        ({"state": "FAILED", "requested_s": 900.0, "limit_set_s": 102.0, "limit_set_by": "guard"}, False),
        ({"state": "FAILED", "requested_s": 900.0, "limit_set_s": 102.0}, False),
        # ... and a minute at most.
        ({"state": "FAILED", "runtime_s": 86_340.0, "requested_s": 86_400.0}, True),
        ({"state": "FAILED", "runtime_s": 86_339.0, "requested_s": 86_400.0}, False),
        ({"state": "FAILED"}, False),
        ({"state": "CANCELLED"}, False),
        ({"state": "OUT_OF_MEMORY"}, False),
        ({"state": "NODE_FAIL"}, True),
        ({"state": "PREEMPTED"}, True),
        # Nobody says how it ended: at its request it may have been killed or not.
        ({"state": None, "requested_s": 100.0}, None),
        ({"state": None, "requested_s": 600.0}, False),
        ({"state": "RUNNING", "end_s": None}, True),
        # No runtime is no bound.
        ({"state": "RUNNING", "end_s": None, "runtime_s": None}, None),
        ({"state": "TIMEOUT", "runtime_s": 0.0}, None),
    ],
)
def test_one_record(row: dict[str, Any], bound: bool | None) -> None:
    assert bound_of(**row) is bound


def test_a_job_still_running_is_kept_where_its_runtime_so_far_is_known() -> None:
    rows = [
        {"state": "RUNNING", "end_s": None},
        {"state": "RUNNING", "end_s": None, "runtime_s": None},
        {"state": "SUSPENDED", "end_s": None},
        {"state": "REQUEUED", "end_s": None},
    ]
    flagged, *_ = clean(jobs_of(rows), CleanSettings())
    assert flags(flagged) == [None, Flag.UNFINISHED, Flag.UNFINISHED, Flag.UNFINISHED]


def test_it_is_set_anew() -> None:
    flagged, *_ = clean(jobs_of([{"is_lower_bound": True}]), CleanSettings())
    assert flagged.column("is_lower_bound").to_pylist() == [False]
