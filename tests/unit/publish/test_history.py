"""Versions over time: their names, pins, promotion, rollback, reruns and earlier dates."""

import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.publish import Retention, load_manifest, read_version
from pipeline.publish.manifest import Manifest, read_manifest
from pipeline.publish.versions import (
    DAY_S,
    find_version,
    pin,
    promote,
    rollback,
    stored_versions,
    version_name,
)
from tests.unit.publish.numbered_versions import NOON, Clock, die_in_step, numbers

FORK = multiprocessing.get_context("forkserver")


def test_a_name_has_the_time_and_sorts_by_it() -> None:
    assert version_name(NOON, "0a1b2c3d4e5f") == "2026-11-22T1200Z-0a1b2c3d"
    assert sorted([version_name(NOON + 60, "a"), version_name(NOON, "b")])[0].endswith("-b")


def test_the_same_run_keeps_its_version_and_its_time(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    assert clock.publish(1.0, NOON + 9 * DAY_S) == first
    manifest = load_manifest(clock.out)
    assert (manifest.created_s, manifest.published_s, clock.folders) == (NOON, NOON + 9 * DAY_S, [first])


def test_two_runs_of_one_minute_have_names_of_their_own(clock: Clock) -> None:
    assert clock.publish(1.0, NOON, run_id="same") == "2026-11-22T1200Z-same"
    assert clock.publish(2.0, NOON, run_id="same") == "2026-11-22T1200Z-same-2"
    assert clock.publish(1.0, NOON, run_id="same") == "2026-11-22T1200Z-same"


def test_a_pinned_version_stays_until_it_is_unpinned(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    pin(clock.out, first, NOON)
    short = Retention(newest=1)
    clock.publish(2.0, NOON + 60, retention=short)
    third = clock.publish(3.0, NOON + 120, retention=short)
    assert clock.folders == [first, third]
    assert [one.is_pinned for one in stored_versions(clock.out)] == [False, True]
    pin(clock.out, first, None)
    assert clock.folders == [first, third]
    fourth = clock.publish(4.0, NOON + 180, retention=short)
    assert clock.folders == [fourth]


def test_rollback_leaves_a_published_version_that_is_damaged(clock: Clock) -> None:
    first, second = (clock.publish(float(n), NOON + 60 * n) for n in (1, 2))
    for table in (clock.out / "versions" / second).glob("*.parquet"):
        table.write_bytes(table.read_bytes()[:-10])
    assert rollback(clock.out, NOON + 300).folder == first
    assert numbers(clock.out) == {1.0}
    third = clock.publish(3.0, NOON + 600)
    places = {one.folder: one.place for one in stored_versions(clock.out)}
    assert places[third] == 0 and places[first] == 1


def test_rollback_goes_back_step_by_step_and_the_next_night_goes_on(clock: Clock) -> None:
    first, second, third = (clock.publish(float(n), NOON + 60 * n) for n in (1, 2, 3))
    assert rollback(clock.out, NOON + 300).folder == second
    assert numbers(clock.out) == {2.0}
    assert rollback(clock.out, NOON + 400).folder == first
    with pytest.raises(InputError, match="no version that was published before"):
        rollback(clock.out, NOON + 500)
    fourth = clock.publish(4.0, NOON + 600)
    assert rollback(clock.out, NOON + 700).folder == first
    assert {one.folder: one.is_withdrawn for one in stored_versions(clock.out)} == {
        first: False, second: True, third: True, fourth: True,
    }  # fmt: skip
    assert promote(clock.out, third, NOON + 800).folder == third
    assert numbers(clock.out) == {3.0}


def test_a_withdrawn_version_is_not_published_by_the_next_night(clock: Clock) -> None:
    first, second = (clock.publish(float(n), NOON + 60 * n, run_id=f"run{n}") for n in (1, 2))
    assert rollback(clock.out, NOON + 300).folder == first
    assert [one.is_pinned for one in stored_versions(clock.out) if one.folder == first] == [True]
    with pytest.raises(InputError, match=f"version {second} again, which a rollback has withdrawn"):
        clock.publish(2.0, NOON + DAY_S, run_id="run2")
    assert load_manifest(clock.out).folder == first and numbers(clock.out) == {1.0}
    promote(clock.out, second, NOON + DAY_S)
    assert clock.publish(2.0, NOON + 2 * DAY_S, run_id="run2") == second
    assert clock.publish(3.0, NOON + 3 * DAY_S, run_id="run3") == load_manifest(clock.out).folder


def test_a_rerun_is_not_published_until_it_is_promoted(clock: Clock) -> None:
    night = clock.publish(1.0, NOON)
    tried = clock.rerun(7.0, NOON + 60, "try-7")
    assert load_manifest(clock.out).folder == night
    assert [one.place for one in stored_versions(clock.out)] == [0, None]
    manifest = read_version(clock.out, NOON + DAY_S)
    assert manifest.folder == night
    manifest = read_version(clock.out, name="try-7")
    assert (manifest.folder, manifest.from_s, manifest.to_s) == (tried, 1, 2)
    assert promote(clock.out, "try-7", NOON + 120).name == "try-7"
    assert numbers(clock.out) == {7.0}
    assert rollback(clock.out, NOON + 180).folder == night


def test_a_name_means_one_run(clock: Clock) -> None:
    clock.publish(1.0, NOON)
    tried = clock.rerun(7.0, NOON + 60, "try-7")
    assert clock.rerun(7.0, NOON + 999, "try-7") == tried
    with pytest.raises(InputError, match="the name of version"):
        clock.rerun(8.0, NOON + 120, "try-7")
    with pytest.raises(InputError, match="--name: found a/b"):
        clock.rerun(8.0, NOON + 120, "a/b")
    assert clock.rerun(7.0, NOON + 120, "try-8") != tried
    assert clock.rerun(1.0, NOON + 120, "as-published") != load_manifest(clock.out).folder


def test_a_rerun_can_come_before_any_publication(clock: Clock) -> None:
    tried = clock.rerun(7.0, NOON, "try-7")
    assert not (clock.out / "manifest.json").exists()
    night = clock.publish(1.0, NOON + 60, retention=Retention(newest=1, named_days=1))
    clock.publish(2.0, NOON + 120, retention=Retention(newest=2, named_days=1))
    assert tried in clock.folders and night in clock.folders


def test_as_of_reads_the_newest_version_made_by_then(clock: Clock) -> None:
    first, second, third = (clock.publish(float(n), NOON + n * DAY_S) for n in (1, 2, 3))
    for at_s, folder in ((DAY_S, first), (2 * DAY_S - 1, first), (2 * DAY_S, second), (9 * DAY_S, third)):
        manifest = read_version(clock.out, NOON + at_s)
        assert manifest.folder == folder
        assert manifest.path("fits").parent.name == folder
    with pytest.raises(InputError, match="2026-11-23T12:00Z or later"):
        read_version(clock.out, NOON)
    rollback(clock.out, NOON + 4 * DAY_S)
    manifest = read_version(clock.out, NOON + 9 * DAY_S)
    assert manifest.folder == second


def test_a_version_is_found_by_folder_run_and_start(clock: Clock) -> None:
    first = clock.publish(1.0, NOON, run_id="aaaaaaaaaaaaaaaa")
    clock.publish(2.0, NOON + 60, run_id="bbbb")
    for text in (first, "aaaaaaaaaaaaaaaa", "2026-11-22T1200"):
        assert find_version(clock.out, text).folder == first
    with pytest.raises(InputError, match="2 versions named 2026"):
        find_version(clock.out, "2026")
    for text in ("", "none", "../versions"):
        with pytest.raises(InputError, match="no version"):
            find_version(clock.out, text)


def test_a_night_reads_no_manifest_of_the_nights_before(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for night in range(9):
        clock.publish(float(night), NOON + night * DAY_S)
    clock.rerun(50.0, NOON + 9 * DAY_S, "try-7")
    promote(clock.out, "try-7", NOON + 9 * DAY_S)
    rollback(clock.out, NOON + 10 * DAY_S)
    read: list[str] = []

    def noted(out: Path, folder: str | None = None) -> Manifest:
        read.extend([folder] if folder else [])
        return read_manifest(out, folder)

    monkeypatch.setattr("pipeline.publish.manifest.read_manifest", noted)
    last = clock.publish(9.0, NOON + 11 * DAY_S)
    assert read == [] and find_version(clock.out, "try-7").is_withdrawn
    stored = stored_versions(clock.out)
    assert [one.place for one in stored] == list(range(11)) and stored[0].folder == last and read == []


def test_a_history_of_an_earlier_release_has_no_names(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    clock.publish(2.0, NOON + 60)
    path = clock.out / "manifest.json"
    plain = json.loads(path.read_text())
    for entry in plain["previous"]:
        del entry["name"]
    path.write_text(json.dumps(plain))
    assert find_version(clock.out, first).place == 1
    clock.publish(3.0, NOON + 120)
    assert [entry.name for entry in load_manifest(clock.out).previous] == ["", ""]


def test_a_damaged_version_is_not_promoted(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    clock.publish(2.0, NOON + 60)
    path = clock.out / "versions" / first / "fits.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:50] + b"?" + whole[51:])
    with pytest.raises(InputError, match=r"table fits of version .* found damaged bytes"):
        promote(clock.out, first, NOON + 120)
    path.write_bytes(whole[:50])
    with pytest.raises(InputError, match="found 50 bytes"):
        rollback(clock.out, NOON + 120)
    assert numbers(clock.out) == {2.0}


def test_rollback_is_offered_where_there_is_a_version_to_go_back_to(clock: Clock) -> None:
    def said() -> str:
        manifest = load_manifest(clock.out)
        path = manifest.place("fits")
        whole = path.read_bytes()
        path.write_bytes(whole[:50] + b"?" + whole[51:])
        with pytest.raises(InputError, match="damaged bytes") as error:
            manifest.path("fits")
        path.write_bytes(whole)
        return str(error.value)

    clock.publish(1.0, NOON)
    assert "versions rollback" not in said()
    clock.publish(2.0, NOON + 60)
    assert "versions rollback" in said()
    rollback(clock.out, NOON + 120)
    # The only other version is the one that was withdrawn.
    assert "versions rollback" not in said()


def test_history_survives_a_damaged_manifest(clock: Clock) -> None:
    first, second = (clock.publish(float(n), NOON + 60 * n) for n in (1, 2))
    tried = clock.rerun(7.0, NOON + 300, "try-7")
    (clock.out / "manifest.json").write_text("{")
    third = clock.publish(3.0, NOON + 360, retention=Retention(newest=1))
    assert clock.folders == [first, second, tried, third]
    assert [entry.folder for entry in load_manifest(clock.out).previous] == [second, first]
    assert rollback(clock.out, NOON + 400).folder == second


def test_other_files_in_a_version_keep_it(clock: Clock) -> None:
    first = clock.publish(1.0, NOON)
    (clock.out / "versions" / first / "my-notes.txt").write_text("keep")
    clock.publish(2.0, NOON + 60, retention=Retention(newest=1))
    third = clock.publish(3.0, NOON + 120, retention=Retention(newest=1))
    assert clock.folders == [first, third]


def _act_and_die(out: Path, act: str, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        die_in_step(step, patch)
        {"promote": lambda: promote(out, "try-7", NOON + 300), "rollback": lambda: rollback(out, NOON + 300),
         "pin": lambda: pin(out, "try-7", NOON + 300)}[act]()  # fmt: skip
    os._exit(0)


@pytest.mark.slow
@pytest.mark.parametrize("act", ["promote", "rollback", "pin"])
def test_death_in_any_step_of_a_change_leaves_one_whole_version(act: str, tmp_path: Path) -> None:
    made = Clock(tmp_path / "made")
    made.publish(1.0, NOON)
    made.publish(2.0, NOON + 60)
    made.rerun(7.0, NOON + 120, "try-7")
    after = {"promote": {7.0}, "rollback": {1.0}, "pin": {2.0}}[act]
    for step in range(100):
        out = Path(shutil.copytree(made.out, tmp_path / f"out{step}"))
        child = FORK.Process(target=_act_and_die, args=(out, act, step))
        child.start()
        child.join(30)
        assert numbers(out) in ({2.0}, after)
        manifest = read_version(out)
        assert manifest.path("fits").exists()
        # Whatever is left does not stop the next change.
        assert len(stored_versions(out)) == 3
        promote(out, "try-7", NOON + 400)
        assert numbers(out) == {7.0}
        if child.exitcode == 0:
            break
    assert 2 < step < 99
