"""Groups and observations, on tables small enough to check by hand."""

import math
import statistics

import pytest

from pipeline.clean import clean
from pipeline.group import assign_groups, describe_groups, observe
from pipeline.scaling.fit import FitRules, fit
from pipeline.scaling.predictions import fitted_series, predict
from pipeline.scaling.series import PredictRules
from pipeline.schema import Flag
from pipeline.settings import CleanSettings, GroupSettings, SiteSettings
from tests.rows import jobs_of

SETTINGS = GroupSettings(template=("user", "application", "requested_mem_kib"))


def grouped(rows: list[dict[str, object]], settings: GroupSettings = SETTINGS):
    # The rows vary the runtime alone, so their start and end contradict it.
    flagged, *_ = clean(jobs_of(rows), CleanSettings(flags_off=(Flag.ELAPSED_DISAGREES,)))
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
    assert (two["n_censored"], eight["n_censored"]) == (0, 0)
    assert report.facts == {
        "observations": 2,
        "observations_with_repeats": 1,
        "observations_without_median": 0,
        "jobs_censored": 0,
        "jobs_with_energy": 0,
    }


def test_energy_by_hand_of_the_jobs_that_were_measured_and_not_stopped() -> None:
    """Medians of 300, 500 J and of 300 x 100, 500 x 200 J s; 0 is a meter that was off, a job at its limit a part."""
    runs = [(2, 100.0, 300.0), (2, 200.0, 500.0), (2, 400.0, None), (2, 50.0, 0.0), (8, 50.0, None)]
    stopped = {"procs": 2, "runtime_s": 600.0, "requested_s": 600.0, "state": "TIMEOUT", "energy_j": 9.0}
    table, _ = grouped([*({"procs": n, "runtime_s": t, "energy_j": j} for n, t, j in runs), stopped])
    observations, report = observe(table)
    two, eight = observations.to_pylist()
    assert (two["n_jobs"], two["n_energy"]) == (5, 2)
    assert (two["energy_j_median"], two["energy_delay_js_median"]) == (400.0, 65_000.0)
    assert (eight["n_energy"], eight["energy_j_median"], eight["energy_delay_js_median"]) == (0, None, None)
    assert report.facts["jobs_with_energy"] == 2


def test_a_runtime_cut_at_its_limit_enters_as_a_lower_bound() -> None:
    runs = [(100.0, "COMPLETED"), (150.0, "TIMEOUT"), (200.0, "COMPLETED"), (300.0, "COMPLETED")]
    table, _ = grouped([{"runtime_s": t, "state": state} for t, state in runs])
    (row,) = observe(table)[0].to_pylist()
    assert (row["n_jobs"], row["n_censored"]) == (4, 1)
    # Ended at places 0, 1/4 x 4/3 and 5/8 x 4/3 of the curve.
    assert row["runtime_s_median"] == pytest.approx(200 + (1 / 2 - 1 / 3) / (5 / 6 - 1 / 3) * 100)
    assert row["log_sd"] == pytest.approx(statistics.stdev(math.log(t) for t in (100, 200, 300)))


def test_a_size_of_lower_bounds_alone_has_no_median_and_is_no_point_of_a_fit() -> None:
    limit = {"state": "TIMEOUT"}
    rows = [{"procs": 1, **limit}, {"procs": 1, **limit}, {"procs": 2, "runtime_s": 60.0}, {"user": "bob", **limit}]
    observations, report = observe(grouped(rows)[0])
    assert observations.num_rows == 3 and report.facts["observations_without_median"] == 2
    fits, report = fit(observations, FitRules())
    by_group = {row["group_id"]: row for row in fits.to_pylist() if row["law"] == "constant"}
    assert sorted((row["n_points"], row["n_jobs"], row["is_chosen"]) for row in by_group.values()) == [
        (0, 1, False),
        (1, 1, True),
    ]
    assert (report.seen.rows, report.kept.rows) == (2, 1)
    predictions, report = predict(fitted_series(observations, fits, PredictRules(), SiteSettings()), "run")
    assert report.set_aside["no_prediction"].rows == 1
    assert set(predictions.column("group_id").to_pylist()) == {g for g, row in by_group.items() if row["is_chosen"]}


def test_nothing_but_lower_bounds_is_no_error() -> None:
    observations, _ = observe(grouped([{"state": "TIMEOUT"}] * 50)[0])
    fits, _ = fit(observations, FitRules())
    assert set(fits.column("status").to_pylist()) == {"too_few_points"}
    assert predict(fitted_series(observations, fits, PredictRules(), SiteSettings()), "run")[0].num_rows == 0


def test_the_odd_runs_of_a_group_are_measured_on_their_own_side() -> None:
    runs = [(n, t) for n in (2, 8) for t in [100.0] * 38 + [20.0, 200.0]]
    table, _ = grouped([{"procs": n, "runtime_s": t} for n, t in runs])
    for row in observe(table)[0].to_pylist():
        assert row["repeat_log_lo95"] == pytest.approx(math.log(5) * 0.025, abs=1e-9)
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
    expected = "this log has no values for application, requested_mem_kib: groups are formed by user alone"
    assert report.notes[0].startswith(expected)
    assert grouped([{"requested_mem_kib": 1.0}])[1].notes == ()
