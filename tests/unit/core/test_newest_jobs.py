"""The newest part of a long log begins with a fixed job, and every job is learnt or counted as older."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.stage import learn_state
from pipeline.large_tables import newest_jobs
from pipeline.settings import SiteSettings
from pipeline.tables import JOBS
from tests.unit.estimate.states import differing

DAY_S = 86_400
SITE = SiteSettings(name="s")


def _s(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def _log(n_days: int, first: str = "2024-02-10") -> pa.Table:
    """A job every six hours."""
    submit_s = _s(first) + np.arange(0, n_days * DAY_S, DAY_S // 4)
    n = len(submit_s)
    runtime_s = np.random.default_rng(1).lognormal(6.0, 1.0, n).round() + 1
    return JOBS.build(
        site=["s"] * n, job_id=[str(row) for row in range(n)], restart=np.zeros(n, np.int64), user=["ada"] * n,
        submit_s=submit_s, start_s=submit_s, end_s=submit_s + runtime_s.astype(np.int64), runtime_s=runtime_s,
        procs=np.full(n, 4), requested_s=np.full(n, 90_000.0), state=["COMPLETED"] * n,
        is_lower_bound=np.zeros(n, bool), source_file=["log"] * n, source_line=np.arange(1, n + 1),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("n_jobs", "least_jobs", "n_older"),
    [(100, 1000, 0), (100, 100, 0), (149, 100, 0), (150, 100, 50), (199, 100, 50), (200, 100, 100), (10, 1, 9)],
)
def test_the_part_begins_with_a_multiple_of_half_the_least_size(n_jobs: int, least_jobs: int, n_older: int) -> None:
    jobs = _log(60).slice(0, n_jobs)
    part, older = newest_jobs(jobs, jobs.column_names, least_jobs)
    assert older.rows == n_older
    assert part.equals(jobs.slice(n_older))


def test_jobs_submitted_after_the_time_do_not_count_but_stay() -> None:
    jobs = _log(60)
    middle_s = jobs.column("submit_s")[159].as_py()
    part, older = newest_jobs(jobs, jobs.column_names, 100, until_s=middle_s)
    assert older.rows == 50
    assert part.num_rows == jobs.num_rows - 50


def test_a_job_without_a_submit_stays() -> None:
    jobs = pa.concat_tables([_log(280), _log(280).slice(0, 1).set_column(
        JOBS.schema().names.index("submit_s"), "submit_s", pa.nulls(1, pa.int64()))])  # fmt: skip
    part, older = newest_jobs(jobs.cast(JOBS.schema()), JOBS.schema().names, 40)
    assert part.column("submit_s").null_count == 1
    assert part.num_rows + older.rows == jobs.num_rows


def test_a_long_log_gives_the_state_of_its_newest_jobs_and_counts_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = _log(280)
    part, older = newest_jobs(jobs, jobs.column_names, 40)
    whole, _ = learn_state(part, SITE)
    monkeypatch.setattr("pipeline.estimate.stage.LEARN_JOBS", 40)
    state, report = learn_state(jobs, SITE)
    assert not differing(state, whole)
    assert report.set_aside["before_newest"] == older
    assert report.check().seen.rows == jobs.num_rows
