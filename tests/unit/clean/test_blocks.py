"""A long log is cleaned block by block: every job once, old blocks as they were, and figures of the whole log."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline.clean import clean, stage
from pipeline.clean.flurries import BURST_RULES, submit_rates
from pipeline.clean.job_arrays import JobArrays
from pipeline.clean.stage import CleanedBlocks, blocks_of
from pipeline.report import Report, Tally, joined_report
from pipeline.settings import CleanSettings, SiteSettings
from pipeline.tables import JOBS

HOUR_S = 3600
SETTINGS = CleanSettings()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "BLOCK_JOBS", 1000)


def log_of(n_jobs: int, seed: int = 1) -> pa.Table:
    """Jobs of five users about a quarter of an hour apart, one in fifty with an impossible time, some flurries."""
    rng = np.random.default_rng(seed)
    submit_s = 1_700_000_000 + np.cumsum(rng.integers(1, 1800, n_jobs))
    burst = np.arange(n_jobs) % 1500 < 300
    submit_s = np.sort(np.where(burst, submit_s - submit_s % 50_000, submit_s))
    runtime_s = rng.lognormal(6.0, 1.5, n_jobs).round() + 1
    start_s = submit_s + rng.integers(0, 600, n_jobs)
    end_s = np.where(rng.random(n_jobs) < 0.02, start_s - 100, start_s + runtime_s.astype(np.int64))
    user = np.where(burst, "u0", np.char.add("u", rng.integers(1, 5, n_jobs).astype(str)))
    return JOBS.build(
        site=["s"] * n_jobs, job_id=[str(row) for row in range(n_jobs)], restart=np.zeros(n_jobs, np.int64),
        user=user.tolist(), submit_s=submit_s, start_s=start_s, end_s=end_s, runtime_s=runtime_s,
        procs=rng.integers(1, 64, n_jobs), state=["COMPLETED"] * n_jobs, source_file=["log"] * n_jobs,
        source_line=np.arange(1, n_jobs + 1),
    )  # fmt: skip


@pytest.mark.parametrize(("n_jobs", "n_blocks"), [(10, 1), (1499, 1), (1500, 2), (2499, 2), (5000, 5)])
def test_blocks_cover_the_log_and_are_of_about_the_wanted_size(n_jobs: int, n_blocks: int) -> None:
    blocks = list(blocks_of(log_of(n_jobs), 1000))
    assert len(blocks) == n_blocks
    assert [first for first, _ in blocks] == [0, *(after for _, after in blocks[:-1])]
    assert blocks[-1][1] == n_jobs
    assert all(450 <= after - first < 1550 for first, after in blocks[: n_blocks > 1 and n_blocks])


def test_a_block_ends_in_the_longest_gap_near_its_wanted_end() -> None:
    jobs = log_of(3000)
    submit_s = jobs.column("submit_s").to_numpy()
    (_, cut), *_ = blocks_of(jobs, 1000)
    gaps_s = np.diff(submit_s[999:1050])
    assert submit_s[cut] - submit_s[cut - 1] == gaps_s.max()


def test_jobs_of_one_second_are_not_parted() -> None:
    jobs = log_of(2000)
    same = pa.array(np.where(np.arange(2000) >= 900, 1_800_000_000, jobs.column("submit_s").to_numpy()))
    jobs = jobs.set_column(jobs.column_names.index("submit_s"), JOBS.schema().field("submit_s"), same)
    assert [after for _, after in blocks_of(jobs, 1000)] == [2000, 2000]
    flagged, *_, report = clean(jobs, SETTINGS)
    assert flagged.num_rows == report.seen.rows == 2000


def test_every_job_is_kept_or_set_aside_once_and_blocks_do_not_touch_each_other() -> None:
    jobs = log_of(5000)
    flagged, bursts, _, report = clean(jobs, SETTINGS)
    assert flagged.drop_columns(["flag", "burst_id", "is_lower_bound"]).equals(
        jobs.drop_columns(["flag", "burst_id", "is_lower_bound"])
    )
    flags = flagged.column("flag").cast(pa.string())
    assert report.kept.rows == flags.null_count
    assert {reason: tally.rows for reason, tally in report.set_aside.items()} == {
        row["values"]: row["counts"] for row in flags.drop_null().value_counts().to_pylist()
    }
    ids = bursts.column("burst_id").to_pylist()
    assert len(set(ids)) == len(ids)
    assert set(flagged.column("burst_id").drop_null().cast(pa.string()).unique().to_pylist()) <= set(ids)
    assert report.facts["jobs"] == 5000


def test_a_block_is_cleaned_with_the_rates_of_the_log_and_else_alone() -> None:
    jobs = log_of(5000)
    flags = clean(jobs, SETTINGS)[0].column("flag").cast(pa.string())
    rates = submit_rates(JobArrays(jobs, SiteSettings()), BURST_RULES.min_jobs)
    for first, after in list(blocks_of(jobs, 1000))[1:-1]:
        arrays = JobArrays(jobs.slice(first, after - first), SiteSettings(), False, False, rates)
        alone = CleanedBlocks(SETTINGS, SiteSettings()).block(arrays).column("flag").cast(pa.string())
        assert alone.to_pylist() == flags.slice(first, after - first).to_pylist()


def test_new_jobs_leave_the_ends_of_earlier_blocks() -> None:
    jobs = log_of(5000)
    ends = [after for _, after in blocks_of(jobs, 1000)][:-1]
    for n_jobs in (4100, 4499, 4600):
        assert [after for _, after in blocks_of(jobs.slice(0, n_jobs), 1000)][:-1] == ends[
            : len(ends) - (n_jobs < 4500)
        ]


@pytest.mark.parametrize("n_jobs", [1400, 5000])
def test_the_rates_of_users_are_those_of_the_whole_log(n_jobs: int) -> None:
    jobs = log_of(n_jobs)
    whole = submit_rates(JobArrays(jobs, SiteSettings()), 50)
    parts = pa.concat_tables([jobs.slice(first, 170) for first in range(0, n_jobs, 170)][::-1]).unify_dictionaries()
    assert submit_rates(JobArrays(parts, SiteSettings()), 50) == whole
    assert set(whole) == {"u0", "u1", "u2", "u3", "u4"}
    assert submit_rates(JobArrays(jobs, SiteSettings()), n_jobs) == {}


def test_a_job_without_user_or_submit_counts_in_no_rate() -> None:
    jobs = log_of(3000)
    rates = submit_rates(JobArrays(jobs, SiteSettings()), 50)
    without = jobs.slice(0, 200)
    for name in ("user", "submit_s"):
        field = JOBS.schema().field(name)
        lacking = without.set_column(without.column_names.index(name), field, pa.nulls(200, field.type))
        both = pa.concat_tables([lacking, jobs]).unify_dictionaries()
        assert submit_rates(JobArrays(both, SiteSettings()), 50) == rates


def test_a_log_without_users_has_no_rates() -> None:
    jobs, field = log_of(200), JOBS.schema().field("user")
    nobody = jobs.set_column(jobs.column_names.index("user"), field, pa.nulls(200, field.type))
    assert submit_rates(JobArrays(nobody, SiteSettings()), 50) == {}
    assert clean(nobody, SETTINGS)[0].num_rows == 200


def test_only_the_ends_of_the_log_are_edges() -> None:
    jobs = log_of(4000)
    for first, after in list(blocks_of(jobs, 1000))[:-1]:
        assert first < after
        shifted = np.where(np.arange(4000) >= after, 10_000_000, 0) + jobs.column("submit_s").to_numpy()
        apart = jobs.set_column(jobs.column_names.index("submit_s"), JOBS.schema().field("submit_s"), pa.array(shifted))
        flagged, *_ = clean(apart, SETTINGS)
        assert "log_edge" not in flagged.column("flag").cast(pa.string()).slice(first + 1, after - first).to_pylist()


def test_the_effect_is_that_of_the_whole_log() -> None:
    jobs = log_of(5000)
    flagged, _, effect, _ = clean(jobs, SETTINGS, SiteSettings(max_procs=640))
    rows = {row["selection"]: row for row in effect.to_pylist()}
    kept = flagged.filter(pc.is_null(flagged.column("flag")))
    for name, table in (("before", jobs), ("after", kept)):
        runtime_s, procs = (table.column(column).to_numpy() for column in ("runtime_s", "procs"))
        assert rows[name]["n_jobs"] == table.num_rows
        assert rows[name]["n_users"] == len(table.column("user").unique())
        assert rows[name]["runtime_s_median"] == np.median(runtime_s)
        assert rows[name]["procs_median"] == np.median(procs)
        assert rows[name]["runtime_s_mean"] == pytest.approx(runtime_s.mean(), rel=1e-12)
        assert rows[name]["proc_hours"] == pytest.approx((runtime_s * procs).sum() / 3600, rel=1e-12)
        day = jobs.column("submit_s").to_numpy() // 86_400
        per_day = np.bincount(table.column("submit_s").to_numpy() // 86_400 - day[0], minlength=day[-1] - day[0] + 1)
        assert rows[name]["jobs_per_day_median"] == np.median(per_day)
    assert effect.num_rows == 2 + len(set(flagged.column("flag").drop_null().cast(pa.string()).to_pylist()))


def test_counts_of_blocks_are_summed_levels_are_the_largest_and_texts_the_newest() -> None:
    parts = [{"jobs": 3, "busy_procs_peak": 9, "share": "a"}, {"jobs": 4, "busy_procs_peak": 7, "share": "b", "new": 1}]
    reports = [Report("clean", "job", Tally(), Tally(), facts=facts) for facts in parts]
    joined = joined_report(reports, {"busy_procs_peak"})
    assert joined.facts == {"jobs": 7, "busy_procs_peak": 9, "share": "b", "new": 1}
