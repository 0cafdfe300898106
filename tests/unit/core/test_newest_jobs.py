"""The newest part of a long log begins with a quarter, and every job is learnt or counted as older."""

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

from pipeline.core.estimate_settings import ForecastSettings
from pipeline.core.newest_jobs import newest_jobs
from pipeline.core.settings import SiteSettings
from pipeline.core.tables import JOBS
from pipeline.estimate.checkpoints import Checkpoint
from pipeline.estimate.stage import learn_from_checkpoints, learn_state
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
    ("least_jobs", "begin"),
    [(10**6, "2024-02-10"), (4 * 10, "2024-10-01"), (4 * 60, "2024-07-01"), (4 * 330, "2024-02-10")],
)
def test_the_part_begins_with_the_newest_quarter_that_has_enough_jobs_after_it(least_jobs: int, begin: str) -> None:
    jobs = _log(280)  # to 15 November
    part, older = newest_jobs(jobs, least_jobs)
    assert part.column("submit_s")[0].as_py() == _s(begin)
    assert part.num_rows + older.rows == jobs.num_rows
    assert part.num_rows >= min(least_jobs, jobs.num_rows)


def test_jobs_submitted_after_the_time_do_not_count_but_stay() -> None:
    part, _ = newest_jobs(_log(280), 40, until_s=_s("2024-09-01"))
    assert part.column("submit_s")[0].as_py() == _s("2024-07-01")
    assert part.column("submit_s")[-1].as_py() > _s("2024-11-01")


def test_a_job_without_a_submit_stays() -> None:
    jobs = pa.concat_tables([_log(280), _log(280).slice(0, 1).set_column(
        JOBS.schema().names.index("submit_s"), "submit_s", pa.nulls(1, pa.int64()))])  # fmt: skip
    part, older = newest_jobs(jobs.cast(JOBS.schema()), 40)
    assert part.column("submit_s").null_count == 1
    assert part.num_rows + older.rows == jobs.num_rows


def test_a_long_log_gives_the_state_of_its_newest_jobs_and_counts_the_others() -> None:
    jobs, settings = _log(280), ForecastSettings(learn_jobs=40)
    state, report = learn_state(jobs, SITE, settings)
    part, older = newest_jobs(jobs, 40)
    assert not differing(state, learn_state(part, SITE, settings)[0])
    assert report.set_aside["before_newest"] == older
    assert report.check().seen.rows == jobs.num_rows


@pytest.mark.parametrize(("n_days", "goes_on"), [(271, True), (340, False)])
def test_a_night_goes_on_from_an_earlier_one_unless_the_part_begins_with_another_quarter(
    n_days: int, goes_on: bool
) -> None:
    settings = ForecastSettings(learn_jobs=40)
    _, _, held = learn_from_checkpoints(_log(270), SITE, settings, "", (), makes_checkpoints=True)
    jobs, read = _log(n_days), []

    def noted(one: Checkpoint) -> pa.Table | None:
        read.append(one.as_of_s)
        return one.read()

    seen = [replace(one, read=partial(noted, one)) for one in held]
    state, _, _ = learn_from_checkpoints(jobs, SITE, settings, "", seen, makes_checkpoints=True)
    assert not differing(state, learn_state(jobs, SITE, settings)[0])
    assert bool(read) == goes_on
