"""The newest part of a long log begins with a fixed job, and every job is learnt or counted as older."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.checkpoints import Checkpoint
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.stage import learn_from_checkpoints, learn_state
from pipeline.large_tables import newest_jobs
from pipeline.settings import SiteSettings
from pipeline.tables import JOBS
from tests.unit.estimate.test_state import differing

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


def test_a_long_log_gives_the_state_of_its_newest_jobs_and_counts_the_others() -> None:
    jobs, settings = _log(280), EstimateRules(learn_jobs=40)
    state, report = learn_state(jobs, SITE, settings)
    part, older = newest_jobs(jobs, jobs.column_names, 40)
    assert not differing(state, learn_state(part, SITE, settings)[0])
    assert report.set_aside["before_newest"] == older
    assert report.check().seen.rows == jobs.num_rows


@pytest.mark.parametrize(("n_days", "goes_on"), [(271, True), (281, False)])
def test_a_night_goes_on_from_an_earlier_one_unless_the_part_begins_with_another_job(
    n_days: int, goes_on: bool
) -> None:
    settings = EstimateRules(learn_jobs=40)
    _, _, held = learn_from_checkpoints(_log(270), SITE, settings, "", (), makes_checkpoints=True)
    jobs, read = _log(n_days), []

    def noted(one: Checkpoint) -> pa.Table | None:
        read.append(one.as_of_s)
        return one.read()

    seen = [replace(one, read=partial(noted, one)) for one in held]
    state, _, _ = learn_from_checkpoints(jobs, SITE, settings, "", seen, makes_checkpoints=True)
    assert not differing(state, learn_state(jobs, SITE, settings)[0])
    assert bool(read) == goes_on
