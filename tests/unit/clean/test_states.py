"""Jobs that something other than the application ended or held up."""

from typing import Any

import pytest

from pipeline.clean import clean
from pipeline.schema import Flag
from pipeline.settings import CleanSettings
from tests.rows import flags, jobs_of


def flag_of(*, settings: CleanSettings | None = None, **row: Any) -> str | None:
    return flags(clean(jobs_of([row]), settings or CleanSettings())[0])[0]


@pytest.mark.parametrize(
    ("state", "flag"),
    [
        ("NODE_FAIL", Flag.NODE_FAILURE),
        ("BOOT_FAIL", Flag.NODE_FAILURE),
        ("LAUNCH_FAILED", Flag.NODE_FAILURE),
        ("OUT_OF_MEMORY", Flag.OUT_OF_MEMORY),
        ("PREEMPTED", Flag.PREEMPTED),
        ("TIMEOUT", None),
        ("FAILED", None),
        ("CANCELLED", None),
        (None, None),
    ],
)
def test_the_state_says_so(state: str | None, flag: Flag | None) -> None:
    assert flag_of(state=state) == flag


def test_a_job_that_never_ran_says_so_before_its_state() -> None:
    assert flag_of(state="NODE_FAIL", runtime_s=0.0, end_s=1_060) == Flag.NEVER_RAN


@pytest.mark.parametrize(
    ("row", "flag"),
    [
        # From 1060 to 2060: 1000 s of life.
        ({"runtime_s": 1_000.0}, None),
        ({"runtime_s": 600.0, "suspended_s": 400.0}, None),
        ({"runtime_s": 1_000.0, "suspended_s": 400.0}, Flag.SUSPENDED),
        ({"runtime_s": 800.0, "suspended_s": 400.0}, Flag.SUSPENDED),
        ({"runtime_s": 1_000.0, "suspended_s": 90.0}, None),
        ({"runtime_s": 600.0, "suspended_s": 450.0}, None),
        ({"runtime_s": 300.0, "suspended_s": 400.0}, Flag.ELAPSED_DISAGREES),
        ({"runtime_s": 1_000.0, "suspended_s": 400.0, "start_s": None}, None),
        ({"runtime_s": 1_000.0, "suspended_s": 400.0, "end_s": None}, None),
    ],
)
def test_a_suspension_is_held_against_a_job_only_where_it_stands_in_the_runtime(
    row: dict[str, Any], flag: Flag | None
) -> None:
    assert flag_of(**({"start_s": 1_060, "end_s": 2_060} | row)) == flag


def test_clocks_cut_to_whole_seconds_are_no_suspension() -> None:
    assert flag_of(start_s=1_060, end_s=1_065, runtime_s=5.0, suspended_s=2.0) is None
