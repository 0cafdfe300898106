"""Recommended requests keep their chance on kinds that stay as they are, and do not look at the future."""

from dataclasses import replace

import numpy as np

from pipeline.arrays import Floats
from pipeline.estimate.history import History, history
from pipeline.limits.advice import LONGER_SHARE, advice_of, advise, runs_longer
from pipeline.settings import SiteSettings
from tests.rows import jobs_of

REQUEST_S, GAP_S = 86_400.0, 1800.0


def rows_of(runtime_s: Floats, **columns: object) -> list[dict[str, object]]:
    """Jobs of three users in turn, which start at once."""
    return [
        {
            "user": f"u{nth % 3}", "application": "solver", "submit_s": int(GAP_S * nth), "start_s": int(GAP_S * nth),
            "end_s": int(GAP_S * nth + run_s), "runtime_s": float(run_s), "requested_s": REQUEST_S, "procs": 4,
        } | columns
        for nth, run_s in enumerate(np.ceil(runtime_s))
    ]  # fmt: skip


def steady(n: int) -> Floats:
    return 3600.0 * np.exp(0.5 * np.random.default_rng(3).standard_normal(n))


def told(log: History, at_s: float = 1e9) -> Floats:
    return advice_of(log, at_s).told_s


def test_the_stated_chance_is_what_happens() -> None:
    log = history(jobs_of(rows_of(steady(12_000))))
    told_s = told(log)
    later = np.flatnonzero(~np.isnan(told_s))
    share = runs_longer(log, later, told_s[later]).mean()
    assert len(later) > 10_000
    assert LONGER_SHARE - 0.01 <= share <= LONGER_SHARE + 0.01
    assert np.median(told_s[later]) < REQUEST_S / 4


def test_the_table_has_a_row_a_kind_with_what_it_usually_requests() -> None:
    table, report = advise(jobs_of(rows_of(steady(3000))), SiteSettings(), "r1")
    assert sorted(table.column("who").to_pylist()) == ["u0", "u1", "u2"]
    assert set(table.column("requested_s").to_pylist()) == {REQUEST_S}
    assert set(table.column("chance_longer").to_pylist()) == {LONGER_SHARE}
    assert all(one % 300 == 0 for one in table.column("recommended_s").to_pylist())
    assert report.facts["n_told"] > 1000


def test_few_jobs_and_jobs_of_one_night_say_nothing() -> None:
    few, one_night = rows_of(steady(57)), rows_of(steady(3000), submit_s=0, start_s=0)
    for rows in (few, one_night):
        table, report = advise(jobs_of(rows), SiteSettings(), "r1")
        assert (table.num_rows, report.facts["share_longer"]) == (0, None)


def test_without_user_and_application_there_is_no_kind() -> None:
    assert advise(jobs_of(rows_of(steady(600), user=None, application=None)), SiteSettings(), "r1")[0].num_rows == 0


def test_no_recommendation_uses_what_comes_later() -> None:
    log = history(jobs_of(rows_of(steady(3000))))
    at_s = float(log.submit_s[2000])
    changed = replace(log, runtime_s=np.where(log.end_s > at_s, 10.0, log.runtime_s))
    before = log.submit_s <= at_s
    assert np.array_equal(told(log, at_s), told(changed, at_s), equal_nan=True)
    assert np.array_equal(told(log)[before], told(changed)[before], equal_nan=True)
    assert advice_of(log, at_s).recommended_s == advice_of(changed, at_s).recommended_s
