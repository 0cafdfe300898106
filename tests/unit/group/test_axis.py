"""What groups are counted in: chosen by the data, in GPUs where these vary; planted laws over GPUs are found."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.group import assign_groups, describe_groups, observe
from pipeline.run import start_run
from pipeline.settings import GroupSettings, RunSettings
from tests.rows import jobs_of
from tools.plain_run import run_plain
from tools.simulation.gpu_runs import GPU_APPLICATIONS, GpuApplication, gpu_pbs, gpu_runs, gpu_sacct

SETTINGS = GroupSettings(template=("user",))
CARDS = {"gpu_type": "a100"}


def seen(rows: list[dict[str, Any]], axis: str = "auto") -> list[tuple[str, int, int]]:
    """Axis, count and jobs of every row of OBSERVATIONS."""
    table, _ = assign_groups(jobs_of(rows), SETTINGS)
    found = observe(table, axis)[0].to_pylist()
    return [(row["axis"], row["procs"], row["n_jobs"]) for row in found]


def test_runs_are_counted_in_gpus_where_processors_follow_them_or_stay() -> None:
    follow = [{"procs": 8 * n, "gpus": n, **CARDS} for n in (1, 2, 2, 4)]
    stay = [{"procs": 16, "gpus": n, **CARDS} for n in (1, 2, 2, 4)]
    assert seen(follow) == seen(stay) == [("gpus", 1, 1), ("gpus", 2, 2), ("gpus", 4, 1)]


def test_processors_stay_where_gpus_do_not_vary_or_processors_do_as_they_like() -> None:
    one_card = [{"procs": n, "gpus": 1} for n in (4, 8, 16)]
    own_ways = [{"procs": procs, "gpus": gpus} for procs, gpus in ((4, 1), (16, 2), (6, 2), (32, 4), (8, 4))]
    assert {axis for axis, _, _ in seen(one_card) + seen(own_ways)} == {"procs"}


def test_a_tenth_of_the_runs_may_have_other_processors() -> None:
    rows = [{"procs": 8 * n, "gpus": n} for n in (1, 2, 4) * 6]
    odd = [{"procs": 5, "gpus": 2}, {"procs": 7, "gpus": 4}]
    assert {axis for axis, _, _ in seen(rows + odd)} == {"gpus"}
    assert {axis for axis, _, _ in seen(rows[:6] + odd)} == {"procs"}


def test_a_log_without_gpus_is_counted_in_processors_and_groups_keep_their_ids() -> None:
    plain, none = [{"procs": n, "nodes": n} for n in (1, 2)], [{"procs": n, "gpus": 0} for n in (1, 2)]
    assert seen(plain) == seen(none) == [("procs", 1, 1), ("procs", 2, 1)]
    ids = [assign_groups(jobs_of(rows), SETTINGS)[0].column("group_id").to_pylist() for rows in (plain, none)]
    # The id that this group had before there was an axis.
    assert set(ids[0] + ids[1]) == {"e44ad02d2802034e"}


def test_runs_on_other_gpus_and_on_none_are_other_groups() -> None:
    table, _ = assign_groups(
        jobs_of([{}, {"gpus": 0}, {"gpus": 1}, {"gpus": 2, **CARDS}, {"gpus": 1, **CARDS}]), SETTINGS
    )
    groups, _ = describe_groups(table, SETTINGS)
    found = {(row["label"], row["gpu_type"], row["axis"], row["n_jobs"]) for row in groups.to_pylist()}
    assert found == {
        ("user=ada", None, "procs", 2),
        ("user=ada gpu_type=gpu", "gpu", "procs", 1),
        ("user=ada gpu_type=a100", "a100", "gpus", 2),
    }


def test_a_site_may_choose_the_axis_of_groups_that_tell_its_counts() -> None:
    told, untold = [{"procs": 24 * n, "nodes": n} for n in (1, 2)], [{"user": "bob", "procs": 4}]
    assert sorted(seen(told + untold, "nodes")) == [("nodes", 1, 1), ("nodes", 2, 1), ("procs", 4, 1)]
    assert {axis for axis, _, _ in seen([{"procs": 8, "gpus": 2}], "gpus")} == {"gpus"}
    assert {axis for axis, _, _ in seen([{"procs": 8 * n, "gpus": n} for n in (1, 2)], "procs")} == {"procs"}


@pytest.fixture(scope="module", params=["sacct", "pbs"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The tables of a run over a simulated log of GPUs, as rows."""
    path: Path = tmp_path_factory.mktemp("gpus") / f"gpus.{request.param}"
    runs = [run for run in gpu_runs(1_000, 30) if request.param == "sacct" or run.of.gpu_type != "v100"]
    path.write_text(gpu_sacct(runs) if request.param == "sacct" else gpu_pbs(runs))
    settings = RunSettings(group=GroupSettings(template=("user", "application")))
    found: dict[str, Any] = {}
    for _, made, _ in run_plain(start_run(settings, [path])):
        found |= made
    names = ("groups", "observations", "fits", "predictions", "scalability")
    return {name: found[name].to_pylist() for name in names}


def test_planted_laws_over_gpus_are_found_with_their_intervals(tables: dict[str, list[dict[str, Any]]]) -> None:
    has_types = any(row["gpu_type"] == "v100" for row in tables["groups"])
    planted = [one for one in GPU_APPLICATIONS if has_types or one.gpu_type != "v100"]
    assert len(tables["groups"]) == len(planted)
    for one in planted:
        card = None if one.gpu_type is None else one.gpu_type if has_types else "gpu"
        (group,) = [
            row
            for row in tables["groups"]
            if row["user"] == one.user and row["gpu_type"] == card and row["application"] in one.name
        ]
        own = {
            name: [row for row in rows if row["group_id"] == group["group_id"]]
            for name, rows in tables.items()
            if name != "groups"
        }
        axis = "procs" if one.gpu_type is None else "gpus"
        assert {row["axis"] for rows in own.values() for row in rows} == {group["axis"]} == {axis}
        assert [row["procs"] for row in own["observations"]] == [1, 2, 4, 8, 16, 32]
        (chosen,) = [row for row in own["fits"] if row["is_chosen"]]
        assert chosen["law"] == one.law.name
        assert chosen["t1_s"] == pytest.approx(one.law.t1_s, rel=0.05)
        for name, value in one.law.params().items():
            assert chosen[name] == pytest.approx(value, rel=0.12), name
        assert one.gpu_type is None or _holds(one, [row for row in own["predictions"] if row["procs"] <= 32])
        units = {"procs": "processors", "gpus": "GPUs"}
        words = [row["advice"] for row in own["predictions"] + own["scalability"] if row["advice"]]
        other = units["gpus" if axis == "procs" else "procs"]
        assert not any(f" {other}" in sentence for sentence in words)


def _holds(one: GpuApplication, predicted: list[dict[str, Any]]) -> bool:
    """Whether the predictions are near the planted law, which lies inside their intervals."""
    truths_s = [one.law.runtime_s(row["procs"]) for row in predicted]
    for row, truth_s in zip(predicted, truths_s, strict=True):
        assert row["runtime_s_lo95"] < truth_s < row["runtime_s_hi95"]
        assert row["runtime_s"] == pytest.approx(truth_s, rel=0.06)
    return len(predicted) >= 6
