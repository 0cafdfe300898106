"""Bursts: planted ones are found above the bound the report states, ordinary work is not, and nobody else changes."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipeline.clean import clean
from pipeline.clean.flurries import BURST_RULES
from pipeline.publish.checks import out_of_range
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, SiteRule, SiteSettings
from pipeline.tables import BURSTS, EFFECT
from tests.unit.clean.sites import BEGIN_S, WEEK_S, background, burst, jobs_table

DAY_S = 86_400
SEEDS = range(12)


def in_burst(jobs: pa.Table, settings: CleanSettings | None = None) -> np.ndarray:
    flagged, *_ = clean(jobs, settings or CleanSettings())
    return flagged.column("burst_id").combine_chunks().is_valid().to_numpy(zero_copy_only=False)


def flag_of(flagged: pa.Table) -> np.ndarray:
    return flagged.column("flag").cast(pa.string()).to_numpy(zero_copy_only=False).astype(str)


@pytest.mark.parametrize("span_s", [1_800, DAY_S, 5 * DAY_S, 4 * WEEK_S])
def test_bursts_above_the_stated_bound_are_found_and_bystanders_are_not(span_s: int) -> None:
    found, planted_jobs, bystanders, others = 0, 0, 0, 0
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        quiet = background(rng)
        *_, report = clean(jobs_table(quiet)[0], CleanSettings())
        limits = BURST_RULES
        smallest = float(report.facts["smallest_burst_jobs"])
        rest_per_week = max(smallest / limits.suspect_weeks, float(len(quiet["user"])) / 26)
        bound = max(limits.min_jobs, rest_per_week * (span_s / WEEK_S + limits.suspect_weeks))
        planted = burst(rng, "flurry", int(1.15 * bound) + 1, BEGIN_S + 9 * WEEK_S, span_s)
        jobs, marks = jobs_table(quiet, planted)
        listed = in_burst(jobs)
        found += int(listed[marks == 1].sum())
        planted_jobs += int((marks == 1).sum())
        bystanders += int(listed[marks == 0].sum())
        others += int((marks == 0).sum())
    assert found >= 0.99 * planted_jobs
    assert bystanders <= 0.001 * others


def test_a_burst_far_ahead_is_set_aside_and_a_lesser_one_is_kept_and_listed() -> None:
    rng = np.random.default_rng(5)
    quiet = background(rng)
    big = burst(rng, "big", 2_500, BEGIN_S + 8 * WEEK_S, 2 * DAY_S, mark=1)
    small = burst(rng, "small", 400, BEGIN_S + 15 * WEEK_S, 6 * 3_600, mark=2)
    jobs, marks = jobs_table(quiet, big, small)
    flagged, bursts, _, report = clean(jobs, CleanSettings())
    assert set(flag_of(flagged)[marks == 1]) == {Flag.FLURRY}
    assert set(flag_of(flagged)[marks == 2]) == {"None"}
    by_user = {row["user"]: row for row in bursts.to_pylist()}
    assert (by_user["big"]["tier"], by_user["small"]["tier"]) == ("remove", "suspect")
    assert by_user["big"]["why"].startswith("big submitted 2,500 jobs in 2.0 days from 2024-03-04")
    assert by_user["small"]["why"].endswith("fewer than 1.5.")
    assert [by_user[name]["runtime_spread"] for name in ("big", "small")] == [1.0, 1.0]
    assert by_user["small"]["n_jobs"] == 400
    assert report.set_aside[Flag.FLURRY].rows == 2_500


def test_the_tables_of_a_burst_of_jobs_that_took_no_time_can_be_published(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    failing = burst(rng, "failing", 2_500, BEGIN_S + 8 * WEEK_S, 2 * DAY_S) | {"runtime_s": np.zeros(2_500)}
    _, bursts, effect, _ = clean(jobs_table(background(rng), failing)[0], CleanSettings())
    assert 0.0 in bursts.column("runtime_s_median").to_pylist()
    for kind, table in ((BURSTS, bursts), (EFFECT, effect)):
        pq.write_table(table, tmp_path / "table.parquet")
        assert not any(out_of_range(kind, tmp_path / "table.parquet").values())


def test_a_burst_of_unlike_jobs_is_work_and_kept() -> None:
    rng = np.random.default_rng(6)
    quiet = background(rng)
    mixed = burst(rng, "busy", 2_500, BEGIN_S + 8 * WEEK_S, DAY_S)
    mixed["procs"] = rng.integers(1, 200, 2_500)
    jobs, marks = jobs_table(quiet, mixed)
    flagged, bursts, *_ = clean(jobs, CleanSettings())
    assert set(flag_of(flagged)[marks == 1]) == {"None"}
    assert "share a size" in bursts.to_pylist()[0]["why"]


def campaign(runtime_s: Any, days: float = 21.0) -> tuple[dict[str, Any], np.ndarray, dict[str, Any]]:
    """The row of BURSTS, the flags and the facts of 5,000 one-processor jobs of these runtimes among ordinary work."""
    rng = np.random.default_rng(8)
    jobs = burst(rng, "busy", 5_000, BEGIN_S + 8 * WEEK_S, int(days * DAY_S))
    jobs |= {"procs": np.ones(5_000, np.int64), "runtime_s": np.broadcast_to(runtime_s, 5_000).astype(float)}
    table, marks = jobs_table(background(rng), jobs)
    flagged, bursts, _, report = clean(table, CleanSettings())
    (row,) = (row for row in bursts.to_pylist() if row["user"] == "busy")
    return row, flag_of(flagged)[marks == 1], report.facts


@pytest.mark.parametrize("log_sd", [0.4, 1.0, 2.0])
def test_three_weeks_of_ordinary_one_processor_jobs_are_listed_and_kept(log_sd: float) -> None:
    runtimes_s = np.ceil(3_600 * np.exp(np.random.default_rng(1).normal(0, log_sd, 5_000)))
    row, flags, facts = campaign(runtimes_s)
    assert (row["tier"], row["alike_procs"]) == ("suspect", 1.0)
    assert row["machine_weeks"] > 1.5
    assert row["share_of_span"] > 0.5
    assert row["runtime_spread"] == pytest.approx(np.exp(1.349 * log_sd), rel=0.1)
    assert f"quartiles differ by a factor of {row['runtime_spread']:.3g}, more than 1.4." in row["why"]
    assert set(flags) == {"None"}
    assert facts["bursts_removed"] == 0


@pytest.mark.parametrize("days", [0.5, 21.0])
def test_as_many_jobs_of_one_runtime_are_set_aside(days: float) -> None:
    runtimes_s = np.ceil(3_600 * np.exp(np.random.default_rng(1).normal(0, 0.1, 5_000)))
    row, flags, _ = campaign(runtimes_s, days)
    assert (row["tier"], set(flags)) == ("remove", {Flag.FLURRY})
    assert row["runtime_spread"] == pytest.approx(np.exp(0.1349), rel=0.1)
    assert "The quartiles of their runtimes differ by a factor of 1.1" in row["why"]


def test_jobs_of_seconds_are_alike_however_many_seconds_they_take() -> None:
    row, flags, _ = campaign(np.random.default_rng(1).integers(1, 50, 5_000), days=3)
    assert (row["tier"], row["runtime_spread"], set(flags)) == ("remove", 1.0, {Flag.FLURRY})


def test_runtimes_that_most_jobs_do_not_tell_are_no_evidence() -> None:
    spread_s = np.exp(np.random.default_rng(1).normal(8, 2, 5_000))
    most, few = (np.where(np.arange(5_000) % 10 < tenths, np.nan, spread_s) for tenths in (6, 4))
    assert (campaign(np.nan)[0]["tier"], campaign(np.nan)[0]["runtime_spread"]) == ("remove", None)
    assert (campaign(most)[0]["tier"], campaign(most)[0]["runtime_spread"]) == ("remove", None)
    assert (campaign(few)[0]["tier"], campaign(few)[0]["runtime_spread"] > 1.4) == ("suspect", True)


def probes(n: int, days: int, runtime_s: float = 8.0) -> dict[str, Any]:
    return {
        "user": np.full(n, "monitor"),
        "submit_s": BEGIN_S + np.linspace(0, days * DAY_S, n).astype(np.int64),
        "procs": np.ones(n, np.int64),
        "runtime_s": np.full(n, runtime_s),
        "application": np.full(n, "pwd"),
        "planted": np.ones(n, np.int64),
    }


@pytest.mark.parametrize(
    ("planted", "is_probe"),
    [
        (probes(4_000, 180), True),
        (probes(4_000, 10), False),  # ten days: a burst if anything, no routine
        (probes(4_000, 180, runtime_s=900.0), False),  # real work
        (probes(490, 180), False),  # too few to matter
    ],
)
def test_probes(planted: dict[str, Any], is_probe: bool) -> None:
    jobs, marks = jobs_table(background(np.random.default_rng(3)), planted)
    flags = flag_of(clean(jobs, CleanSettings())[0])
    assert (set(flags[marks == 1]) == {Flag.PROBE}) == is_probe
    assert Flag.PROBE not in flags[marks == 0]


def test_probes_of_an_unknown_application_are_listed_and_kept() -> None:
    jobs, _ = jobs_table(background(np.random.default_rng(3)), probes(4_000, 180))
    unknown = pa.nulls(jobs.num_rows, jobs.schema.field("application").type)
    jobs = jobs.set_column(jobs.column_names.index("application"), jobs.schema.field("application"), unknown)
    flagged, bursts, *_ = clean(jobs, CleanSettings())
    assert Flag.PROBE not in flag_of(flagged)
    assert [row["tier"] for row in bursts.to_pylist() if row["screen"] == "probe"] == ["suspect"]


def test_a_timer_is_found_by_the_hour_of_the_sites_clock_in_summer_and_winter() -> None:
    midnight_s = BEGIN_S - 3_600 + DAY_S * np.repeat(np.arange(180), 5)  # Stockholm is an hour ahead, two in summer
    summer = midnight_s + 3 * 3_600 >= 1_711_846_800  # 2024-03-31 01:00 UTC
    nightly = probes(900, 180, runtime_s=600.0) | {"user": np.full(900, "cron")}
    nightly["submit_s"] = midnight_s - 3_600 * summer + 3 * 3_600 + 300
    jobs, marks = jobs_table(background(np.random.default_rng(4)), nightly)
    by_zone = {
        zone: clean(jobs, CleanSettings(), SiteSettings(timezone=zone))[0] for zone in ("Europe/Stockholm", "UTC")
    }
    assert set(flag_of(by_zone["Europe/Stockholm"])[marks == 1]) == {Flag.CRON}
    assert Flag.CRON not in flag_of(by_zone["UTC"])


def test_one_user_alone_is_not_measured_against_nobody() -> None:
    jobs, _ = jobs_table(burst(np.random.default_rng(1), "only", 5_000, BEGIN_S, 20 * WEEK_S))
    assert not in_burst(jobs).any()


def test_a_slow_user_with_many_jobs_costs_no_more_than_a_fast_one() -> None:
    rng = np.random.default_rng(1)
    n = 300_000  # each gap longer than the last: every job a segment of its own, none ever merged
    slow = burst(rng, "slow", n, BEGIN_S, 1)
    slow["submit_s"] = BEGIN_S + np.cumsum(np.linspace(40, 60, n)).astype(np.int64)
    crowd = burst(rng, "crowd", n, BEGIN_S, int(slow["submit_s"][-1]) - BEGIN_S)
    jobs, _ = jobs_table(slow, crowd)
    in_burst(jobs)


def test_a_site_keeps_a_burst_and_drops_a_user() -> None:
    rng = np.random.default_rng(5)
    big = burst(rng, "big", 2_500, BEGIN_S + 8 * WEEK_S, 2 * DAY_S)
    jobs, marks = jobs_table(background(rng), big)
    burst_id = clean(jobs, CleanSettings())[1].to_pylist()[0]["burst_id"]
    settings = CleanSettings(
        keep=(SiteRule(burst=burst_id, reason="a parameter study we want"),),
        drop=(SiteRule(user="u3", until="2024-03-01", reason="tests of the new nodes"),),
    )
    flagged, _, _, report = clean(jobs, settings)
    flags, users = flag_of(flagged), np.array(jobs.column("user").to_pylist())
    early = jobs.column("submit_s").to_numpy() < 1_709_251_200
    assert set(flags[marks == 1]) == {"None"}
    assert set(flags[(users == "u3") & early]) == {Flag.SITE_DROP}
    assert Flag.SITE_DROP not in flags[(users != "u3") | ~early]
    assert report.facts["site_keep: a parameter study we want"] == 2_500
    assert report.facts["site_drop: tests of the new nodes"] == int(((users == "u3") & early).sum())


def test_effect_shows_a_planted_flurry_gone() -> None:
    rng = np.random.default_rng(8)
    quiet = background(rng)
    alone = clean(jobs_table(quiet)[0], CleanSettings())[2].to_pylist()[0]
    jobs, _ = jobs_table(quiet, burst(rng, "big", 8_000, BEGIN_S + 8 * WEEK_S, 2 * DAY_S))
    before, after, *_ = clean(jobs, CleanSettings())[2].to_pylist()
    assert before["runtime_s_median"] < 0.5 * alone["runtime_s_median"]
    for name in ("n_jobs", "runtime_s_mean", "runtime_s_median", "procs_mean", "jobs_per_day_mean"):
        assert after[name] == pytest.approx(alone[name], rel=0.01)


def test_ids_and_flags_do_not_depend_on_the_order_of_rows_or_on_flags_already_there() -> None:
    rng = np.random.default_rng(9)
    jobs, _ = jobs_table(background(rng), burst(rng, "big", 2_500, BEGIN_S + 8 * WEEK_S, 2 * DAY_S))
    flagged, bursts, *_ = clean(jobs, CleanSettings())
    order = rng.permutation(jobs.num_rows)
    shuffled, again, *_ = clean(flagged.take(pa.array(order)), CleanSettings())
    assert again.equals(bursts)
    for name in ("flag", "burst_id"):
        assert shuffled.column(name).to_pylist() == pc.take(flagged.column(name), pa.array(order)).to_pylist()


def test_a_quiet_users_jobs_change_nobody_elses_flags() -> None:
    rng = np.random.default_rng(10)
    parts = [background(rng), burst(rng, "big", 700, BEGIN_S + 8 * WEEK_S, 2 * DAY_S), probes(4_000, 180)]
    jobs, _ = jobs_table(*parts)
    before = clean(jobs, CleanSettings())[0]
    for seed in SEEDS:
        more, _ = jobs_table(*parts, burst(np.random.default_rng(seed), "shy", 99, BEGIN_S, 26 * WEEK_S))
        after = clean(more, CleanSettings())[0].slice(0, jobs.num_rows)
        assert flag_of(after).tolist() == flag_of(before).tolist()
        assert after.column("burst_id").to_pylist() == before.column("burst_id").to_pylist()
