"""A recorded runtime that contradicts end minus start is flagged, and both numbers are kept."""

import pytest

from pipeline.clean import clean, records
from pipeline.schema import Flag
from pipeline.settings import CleanSettings
from tests.rows import flags, jobs_of


@pytest.mark.parametrize(
    ("changed", "flag"),
    [
        ({"end_s": 1_060 + 3_600, "runtime_s": 36.0}, Flag.ELAPSED_DISAGREES),
        ({"end_s": 1_060 + 3_600, "runtime_s": 7_200.0}, Flag.ELAPSED_DISAGREES),
        ({"end_s": 1_060 + 3_600, "runtime_s": 1_600.0, "suspended_s": 2_000.0}, None),
        ({"end_s": 1_060 + 3_600, "runtime_s": 1_600.0, "suspended_s": 500.0}, Flag.ELAPSED_DISAGREES),
        ({"end_s": 1_060 + 3_600, "runtime_s": 3_545.0}, None),
        ({"end_s": 1_060 + 86_400, "runtime_s": 85_800.0}, None),
        ({"start_s": None, "end_s": None, "runtime_s": 3_600.0}, None),
    ],
)
def test_a_runtime_that_contradicts_end_minus_start_is_flagged(changed: dict[str, float], flag: Flag | None) -> None:
    jobs = jobs_of([changed])
    flagged, *_ = clean(jobs, CleanSettings())
    assert flags(flagged) == [flag]
    for name in ("start_s", "end_s", "runtime_s"):
        assert flagged[name].equals(jobs[name])


def test_a_study_can_set_another_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = jobs_of([{"end_s": 1_060 + 3_600, "runtime_s": 3_545.0}])
    assert flags(clean(jobs, CleanSettings())[0]) == [None]
    monkeypatch.setattr(records, "ELAPSED_TOLERANCE_S", 10.0)
    assert flags(clean(jobs, CleanSettings())[0]) == [Flag.ELAPSED_DISAGREES]
