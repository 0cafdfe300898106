"""Predictions for later jobs: calibrated on the log's past windows, believed by track record, blind to what comes."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipeline import large_tables
from pipeline.evaluate.later_scores import _known, _laws, figures, fitted_at, later_scores
from pipeline.group import assign_groups, observe, sort_by_group
from pipeline.scaling.later.cells import DAY_S, Atoms, Cells, Mixtures
from pipeline.scaling.later.later import later
from pipeline.scaling.later.windows import PastWindows, Window, calibrated_shares, past_cuts, windows_at
from pipeline.scaling.predictions import predict
from pipeline.scaling.scaling_rules import FitRules, PredictRules, predict_rules
from pipeline.scaling.stage import fit
from pipeline.settings import GroupSettings, RunSettings, SiteSettings
from pipeline.tables import JOBS

SETTINGS = PredictRules()
DAYS = 60


def log_of(spread: float, jump_day: int | None = None, days: int = DAYS, sizes: tuple[int, ...] = (1, 4)) -> pa.Table:
    """Five groups, per size four jobs a day, scattered about 1,000 s; from `jump_day` on four times as long."""
    source = np.random.default_rng(5)
    day, group, size = (grid.ravel() for grid in np.meshgrid(np.arange(days), np.arange(5), sizes, indexing="ij"))
    day, group, size = (np.repeat(values, 4) for values in (day, group, size))
    submit_s = (day * DAY_S + source.uniform(0, DAY_S * 0.9, day.size)).astype(np.int64)
    log_s = np.log(1000.0) + spread * source.standard_normal(day.size)
    runtime_s = np.exp(log_s + np.log(4.0) * (day >= (jump_day if jump_day is not None else days)))
    return jobs_of(submit_s, group, size, runtime_s)


def jobs_of(submit_s: np.ndarray, group: np.ndarray, procs: np.ndarray, runtime_s: np.ndarray) -> pa.Table:
    n = len(submit_s)
    return JOBS.build(
        site=["here"] * n, job_id=[str(i) for i in range(n)], restart=[0] * n, state=["COMPLETED"] * n,
        submit_s=submit_s, start_s=submit_s, end_s=submit_s + runtime_s.astype(np.int64), procs=procs,
        runtime_s=runtime_s.astype(float), source_file=["log"] * n, source_line=list(range(1, n + 1)),
        is_lower_bound=[False] * n, group_id=[f"g{i}" for i in group], account=[f"a{i}" for i in group],
    )  # fmt: skip


def later_of(jobs: pa.Table, settings: PredictRules = SETTINGS) -> tuple[pa.Table, object]:
    observations, _ = observe(jobs)
    fits, _ = fit(observations, FitRules())
    table, _ = predict(observations, fits, settings, SiteSettings(), "run")
    return later(table, jobs, fits, settings)


def windows_of(cells: Cells, settings: PredictRules = SETTINGS) -> list[Window]:
    return windows_at(cells, np.zeros(len(cells)), settings, past_cuts(cells, cells.now_s, settings))


def past_of(cells: Cells, settings: PredictRules = SETTINGS) -> PastWindows:
    return PastWindows.of(windows_of(cells, settings), cells, cells.now_s, settings.past_windows)


@pytest.mark.parametrize("part_rows", [100, 1 << 20])
def test_jobs_in_order_of_time_are_answered_as_those_in_order_of_group(
    monkeypatch: pytest.MonkeyPatch, part_rows: int
) -> None:
    """The windows lie in the newest jobs; each row of PREDICTIONS is answered once, from all jobs of its group."""
    settings = replace(SETTINGS, calibrate_jobs=400)
    jobs = log_of(0.05)
    observations, _ = observe(jobs)
    fits, _ = fit(observations, FitRules())
    laws, _ = predict(observations, fits, settings, SiteSettings(), "run")
    grouped, _ = sort_by_group(jobs, GroupSettings(template=("account",)), None)
    expected, report = later(laws, jobs, fits, settings, grouped=grouped)
    monkeypatch.setattr(large_tables, "PART_ROWS", part_rows)
    found, told = later(laws, jobs, fits, settings)
    assert report.facts["past_jobs"] < 600 < jobs.num_rows
    assert found.equals(expected) and told == report


def test_steady_rows_are_ok_until_the_horizon_and_hold() -> None:
    jobs = log_of(0.05)
    table, report = later_of(jobs)
    ran = table.filter(pc.is_in(table.column("procs"), pa.array([1, 4])))
    assert set(ran.column("reliability").to_pylist()) == {"ok"}
    now_s = max(jobs.column("end_s").to_pylist())
    assert set(ran.column("holds_until_s").to_pylist()) == {now_s + int(DAY_S)}
    assert report.facts["past_windows"] >= 50
    for row in ran.to_pylist():
        assert row["runtime_s_lo80"] == pytest.approx(1000 * np.exp(-0.064), rel=0.05)
        assert row["runtime_s_hi80"] == pytest.approx(1000 * np.exp(0.064), rel=0.05)


@pytest.mark.parametrize("least", [1, 2])
def test_a_speedup_without_a_law_needs_a_run_on_one_processor(least: int) -> None:
    table, _ = later_of(log_of(0.05, sizes=(least, 4)))
    assert set(table.column("method").to_pylist()) == {"observed"}
    for row in table.to_pylist():
        assert (row["efficiency"] is None) == (row["speedup"] is None) == (least != 1), row
        if least == 1 and row["procs"] in (1, 4):
            assert row["speedup"] == pytest.approx(1.0, rel=0.05)


def test_scattered_rows_are_not_ok_and_the_log_says_why() -> None:
    table, report = later_of(log_of(1.5))
    assert "ok" not in table.column("reliability").to_pylist()
    assert all("missed" in words or "no_record" in words for words in table.column("reliability").to_pylist())
    assert set(table.column("holds_until_s").to_pylist()) == {None}
    (note,) = report.notes
    assert note.startswith("No prediction is ok: ") and "group.template" in note and "problem_size" in note


def test_later_jobs_lie_inside_as_often_as_named() -> None:
    """The log names accounts alone, as one that is exported without users does: the template is what it can tell."""
    jobs = log_of(0.8, days=80)
    found = later_scores(jobs, RunSettings(), (0.75, 0.98), (1.0, 7.0))
    assert set(found) == {1.0, 7.0}
    for days, scored in found.items():
        one = figures(scored)
        assert one["jobs"] >= 600
        assert 0.77 <= one["in_80"] <= 0.83, (days, one)
        assert 0.93 <= one["in_95"] <= 0.975, (days, one)


def test_what_is_scored_night_by_night_is_what_a_run_of_that_night_publishes() -> None:
    jobs = log_of(0.5, days=30)
    submit_s = jobs.column("submit_s").to_numpy()
    cut_s = float(np.floor(np.quantile(submit_s, 0.8)))
    known, chosen = _known(jobs, RunSettings(), cut_s, "")
    grouped, _ = assign_groups(known, chosen.group)
    laws, fits = _laws(grouped, chosen)
    table, _ = later(laws, grouped, fits, predict_rules(RunSettings().horizon_days), cut_s)
    fitted = fitted_at(jobs, RunSettings(), cut_s)
    assert fitted.template == "account" and len(fitted.cells) == 10
    scored = later_scores(jobs, RunSettings(), (0.8, (submit_s <= cut_s + DAY_S / 2).mean()), (1.0,))[1.0]
    ran = table.filter(pc.is_in(table.column("procs"), pa.array([1, 4])))
    for name, values in scored.numbers.items():
        assert scored.actual_s.size >= 10
        assert all(np.isclose(ran.column(name).to_numpy(), value, rtol=1e-9).any() for value in values), name


def test_logs_that_jump_get_wider_intervals_than_logs_that_do_not() -> None:
    def width(jobs: pa.Table) -> float:
        row = later_of(jobs)[0].to_pylist()[0]
        return row["runtime_s_hi95"] / row["runtime_s_lo95"]

    assert width(log_of(0.1, jump_day=55)) > 2 * width(log_of(0.1))


def test_what_ends_after_the_cut_changes_nothing() -> None:
    """Runtimes of what had not ended when the only cut was made are drawn anew: what was predicted stays."""
    jobs = log_of(0.5, days=40)
    submit_s, end_s = (jobs.column(name).to_numpy() for name in ("submit_s", "end_s"))
    cut_s = np.floor(np.quantile(submit_s, 0.7))
    shares = (0.7, float((submit_s <= cut_s + DAY_S / 2).mean()))
    is_known = end_s <= cut_s
    runtime_s = np.where(is_known, jobs.column("runtime_s").to_numpy(), 7.0)
    place, field = jobs.column_names.index("runtime_s"), jobs.schema.field("runtime_s")
    other = jobs.set_column(place, field, pa.array(runtime_s))
    mine, theirs = (later_scores(table, RunSettings(), shares, (1.0,))[1.0] for table in (jobs, other))
    for name, values in mine.numbers.items():
        assert values == pytest.approx(theirs.numbers[name], rel=1e-9), name
    assert mine.actual_s.tobytes() != theirs.actual_s.tobytes()


def test_a_window_is_predicted_from_what_had_ended_when_it_began() -> None:
    """Runtimes of the last day are drawn anew: what earlier windows predicted stays to the bit."""
    jobs = log_of(0.5)
    late = jobs.column("submit_s").to_numpy() >= (DAYS - 1) * DAY_S
    end_s = jobs.column("end_s").to_numpy()
    runtime_s = np.where(late & (end_s < end_s.max()), 3.0, jobs.column("runtime_s").to_numpy())
    other = jobs.set_column(jobs.column_names.index("runtime_s"), jobs.schema.field("runtime_s"), pa.array(runtime_s))
    pasts = []
    for table in (jobs, other):
        cells = Cells.of(table)
        pasts.append(past_of(cells))
    early = [past.age_days > 2 for past in pasts]
    assert early[0].sum() > 100
    assert pasts[0].half_iqr[early[0]].tobytes() == pasts[1].half_iqr[early[1]].tobytes()
    assert pasts[0].hit[early[0]].tobytes() == pasts[1].hit[early[1]].tobytes()


def test_rows_in_any_order_give_the_same_bytes() -> None:
    jobs = log_of(0.5)
    shuffled = jobs.take(pa.array(np.random.default_rng(3).permutation(jobs.num_rows)))
    assert later_of(jobs)[0].equals(later_of(shuffled)[0])


def test_a_count_that_never_ran_is_told_by_its_neighbours_where_the_group_does_not_scale() -> None:
    """Medians of 1,000 s on 1 and 4 processors: a law through scattered points is not believed on 2."""
    row = next(row for row in later_of(log_of(1.0))[0].to_pylist() if row["procs"] == 2)
    assert row["method"] == "observed" and 700 <= row["runtime_s"] <= 1400


def test_without_a_past_the_defaults_stand_and_nothing_is_believed() -> None:
    jobs = log_of(0.1, days=1)
    cells = Cells.of(jobs)
    past = past_of(cells)
    assert past.n_windows == 0
    assert calibrated_shares(past, 1.0)[0].tolist() == [0.023, 0.10, 0.924, 0.982]
    assert "ok" not in later_of(jobs)[0].column("reliability").to_pylist()


def test_shares_and_values_of_a_mixture_are_each_others_inverse() -> None:
    source = np.random.default_rng(1)
    owner = np.sort(source.integers(0, 3, 60))
    mixtures = Mixtures.of(Atoms(owner, source.standard_normal(60), source.uniform(0.1, 1, 60)), 3)
    for share in (0.1, 0.3, 0.5, 0.8):
        value = mixtures.at(np.arange(3), np.full(3, share))
        assert mixtures.below(np.arange(3), value) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("horizon_days", [0.3, 2.5])
def test_windows_may_begin_within_a_day_of_many_runs(horizon_days: float) -> None:
    """A hundred runs of one cell a day: what had ended by noon is something to go by."""
    source = np.random.default_rng(8)
    submit_s = np.sort(source.uniform(0, 10 * DAY_S, 1000)).astype(np.int64)
    ones = np.ones(1000, np.int64)
    jobs = jobs_of(submit_s, ones, ones, np.exp(source.normal(6.0, 0.1, 1000)))
    cells = Cells.of(jobs)
    past = past_of(cells, PredictRules(horizon_days=horizon_days))
    assert past.n_windows >= 3 and past.is_seen.all()


def test_a_busy_day_does_not_push_the_days_before_out() -> None:
    """Ten days of one run of 100 s, then a thousand runs of 1,000 s in a day: the earlier days are still known."""
    submit_s = np.concatenate([np.arange(10) * DAY_S, 10.5 * DAY_S + np.arange(1000)]).astype(np.int64)
    runtime_s = np.repeat([100.0, 1000.0], [10, 1000])
    ones = np.ones(submit_s.size, np.int64)
    cells = Cells.of(jobs_of(submit_s, ones, ones, runtime_s))
    atoms = cells.atoms(np.array([0]), np.array([1010]), cells.now_s, 400)
    assert (atoms.log_s < 5).sum() == 10 and (atoms.log_s > 5).sum() == 20
