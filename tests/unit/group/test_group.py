"""Groups and observations, on tables small enough to check by hand."""

import math

import pytest

from pipeline.clean import clean
from pipeline.core.settings import CleanSettings, GroupSettings
from pipeline.group import assign_groups, describe_groups, observe
from tests.rows import jobs_of

SETTINGS = GroupSettings()


def grouped(rows: list[dict[str, object]], settings: GroupSettings = SETTINGS):
    flagged, *_ = clean(jobs_of(rows), CleanSettings())
    return assign_groups(flagged, settings)


def test_jobs_that_share_the_template_share_a_group() -> None:
    table, report = grouped(
        [{"user": "ada"}, {"user": "ada", "queue": "long"}, {"user": "bob"}, {"requested_mem_kib": 5.0}]
    )
    ids = table.column("group_id").to_pylist()
    assert ids[0] == ids[1] and len(set(ids)) == 3
    assert report.facts["groups"] == 3


def test_a_group_keeps_its_id_when_other_jobs_come() -> None:
    alone, _ = grouped([{"user": "zoe"}])
    later, _ = grouped([{"user": "ada"}, {"user": "zoe"}, {"user": "bob"}])
    assert alone.column("group_id")[0].as_py() == later.column("group_id")[1].as_py()


def test_other_sites_and_templates_are_other_groups() -> None:
    ids = {
        grouped([{"site": site}], GroupSettings(template=template))[0].column("group_id")[0].as_py()
        for site in ("here", "there")
        for template in (("user",), ("user", "queue"))
    }
    assert len(ids) == 4


def test_flagged_and_unknown_jobs_have_no_group_and_are_counted() -> None:
    table, report = grouped([{}, {"runtime_s": 0.0}, {"user": None, "application": None}])
    assert [i is None for i in table.column("group_id").to_pylist()] == [False, True, True]
    assert {reason: tally.rows for reason, tally in report.set_aside.items()} == {"flagged": 1, "no_template_values": 1}


def test_groups_are_described() -> None:
    table, _ = grouped(
        [{"procs": 1}, {"procs": 2}, {"procs": 2, "requested_mem_kib": None}, {"user": "bob", "procs": 3}]
    )
    groups, report = describe_groups(table, SETTINGS)
    by_label = {row["label"]: row for row in groups.to_pylist()}
    assert by_label["user=ada application=solver"]["n_jobs"] == 3
    assert by_label["user=ada application=solver"]["n_sizes"] == 2
    assert by_label["user=bob application=solver"]["user"] == "bob"
    assert report.facts == {"groups": 2, "groups_3_sizes": 0}


def test_observations_by_hand() -> None:
    runs = [(2, 100.0), (2, 200.0), (2, 400.0), (8, 50.0)]
    table, _ = grouped([{"procs": n, "runtime_s": t, "start_s": 2_000 + n, "end_s": 3_000 + n} for n, t in runs])
    observations, report = observe(table)
    two, eight = observations.to_pylist()
    assert (two["procs"], two["n_jobs"], two["runtime_s_median"]) == (2, 3, 200.0)
    assert two["runtime_s_q10"] == pytest.approx(120.0) and two["runtime_s_q90"] == pytest.approx(360.0)
    assert two["log_sd"] == pytest.approx(math.log(2))
    assert (eight["log_sd"], eight["runtime_s_q10"]) == (None, 50.0)
    assert (two["first_start_s"], two["last_end_s"]) == (2_002, 3_002)
    assert report.facts == {"observations": 2, "observations_with_repeats": 1}


def test_the_odd_runs_of_a_group_are_measured_on_their_own_side() -> None:
    runs = [(n, t) for n in (2, 8) for t in [100.0] * 38 + [1.0, 200.0]]
    table, _ = grouped([{"procs": n, "runtime_s": t} for n, t in runs])
    for row in observe(table)[0].to_pylist():
        assert row["repeat_log_lo95"] == pytest.approx(math.log(100) * 0.025, abs=1e-9)
        assert row["repeat_log_hi95"] == pytest.approx(math.log(2) * 0.025, abs=1e-9)


def test_a_log_without_starts_still_has_times() -> None:
    table, _ = grouped([{"start_s": None, "end_s": None, "submit_s": 500, "runtime_s": 7.5}])
    observed = observe(table)[0].to_pylist()[0]
    assert (observed["first_start_s"], observed["last_end_s"]) == (500, 507)


def test_nothing_in_nothing_out() -> None:
    table, _ = grouped([{"runtime_s": 0.0}])
    assert observe(table)[0].num_rows == 0
    assert describe_groups(table, SETTINGS)[0].num_rows == 0


def test_a_template_the_log_does_not_fill_is_said() -> None:
    _, report = grouped([{"application": None}, {"application": None, "user": "bob"}])
    assert report.notes[0].startswith("this log never tells application, requested_mem_kib: groups are by user alone")
    assert grouped([{"requested_mem_kib": 1.0}])[1].notes == ()
