"""A night that a check holds back: yesterday's tables stay, the night's are set aside, and the reason is said."""

from pathlib import Path
from typing import Any

import pytest

from flows.services.doctor import check_published
from flows.services.run.running import publish_checked
from flows.services.run_record import BlockedVersionError
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.publish.manifest import made_manifest
from pipeline.report import Report
from pipeline.settings import CheckSettings, NewestJob, RunSettings, parse_settings
from tests.unit.publish.versions_of_tables import NEWEST_S, folder_of, jobs, run_facts, staged


def night(
    folder: Path, run_id: str, n_jobs: int, checks: dict[str, Any] | None = None, site: str = "oxbow"
) -> list[Report]:
    """Check and publish a night of so many jobs; the reports that were published."""
    settings = parse_settings({"checks": checks or {}}, "test")
    facts = run_facts(run_id, site, settings=settings.model_dump(mode="json"))
    files = staged(folder / "staged", jobs=jobs(n_jobs))
    made = made_manifest(files, [], facts, folder / "out", NEWEST_S + n_jobs)
    publish_checked(files, made, settings)
    return [Report.from_dict(plain) for plain in load_manifest(folder / "out").reports]


def test_a_blocked_night_keeps_what_was_published_and_is_blocked(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200)
    before = (tmp_path / "out/manifest.json").read_bytes()
    with pytest.raises(BlockedVersionError) as blocked:
        night(tmp_path, "r2", 20)
    assert blocked.value.exit_code == 4
    assert "Check fewer_rows failed: jobs: found 20 rows, expected at least 100" in str(blocked.value)
    assert str(tmp_path / "out/blocked/r2") in str(blocked.value)
    assert 'checks.fewer_rows.mode to "warn"' in str(blocked.value)
    assert (tmp_path / "out/manifest.json").read_bytes() == before
    assert load_manifest(tmp_path / "out/blocked/r2").tables["jobs"].rows == 20
    stored = load_manifest(tmp_path / "out/blocked/r2").report("checks")
    assert stored and [check for check, state in stored["facts"].items() if state == "failed"] == ["fewer_rows"]
    assert check_published(tmp_path / "out/blocked/r2", NEWEST_S)["not_compared"] == "no version was published before"


def test_a_warning_is_published_as_a_note(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200)
    (report,) = night(tmp_path, "r2", 20, {"fewer_rows": {"mode": "warn"}})
    assert load_manifest(tmp_path / "out").run_id == "r2"
    assert report.notes[0].startswith("Check fewer_rows failed: jobs: found 20 rows")
    assert report.facts["fewer_rows"] == "failed" and report.set_aside["failed"].rows == 1
    assert load_manifest(tmp_path / "out").reports[-1]["notes"] == list(report.notes)


def test_the_newest_blocked_versions_stay_and_other_folders_are_left_alone(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200)
    (tmp_path / "out/blocked/notes").mkdir(parents=True)
    for n in (9, 10, 11, 12, 12):
        with pytest.raises(BlockedVersionError):
            night(tmp_path, f"h{n}", n)
    blocked = sorted(path.name for path in (tmp_path / "out/blocked").glob("[!.]*"))
    assert blocked == ["h10", "h11", "h12", "notes"]


def test_another_site_in_the_same_folder_is_not_compared(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200)
    (report,) = night(tmp_path, "r2", 20, site="riverbend")
    assert report.facts["fewer_rows"] == "skipped"


def test_a_lost_table_of_yesterday_does_not_stop_the_night(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200)
    (folder_of(tmp_path / "out", "r1") / "jobs.parquet").unlink()
    (report,) = night(tmp_path, "r2", 20)
    assert report.facts["fewer_rows"] == "skipped"


def test_the_published_version_is_checked_against_the_one_before_it(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200)
    night(tmp_path, "r2", 20, {"fewer_rows": {"mode": "warn"}})
    found = check_published(tmp_path / "out", NEWEST_S)
    assert (found["run_id"], found["compared_with"], found["passed"]) == ("r2", "r1", True)
    states = {one["check"]: one["state"] for one in found["checks"]}
    assert states["fewer_rows"] == "failed" and states["ranges"] == "passed"


def test_a_check_that_blocks_fails_on_published_tables_too(tmp_path: Path) -> None:
    night(tmp_path, "r1", 200, {"newest_job": {"mode": "block"}})
    assert check_published(tmp_path / "out", NEWEST_S)["passed"]
    assert not check_published(tmp_path / "out", NEWEST_S + 3 * 86_400)["passed"]


def test_nothing_published_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        check_published(tmp_path, 0)


def test_checks_do_not_change_a_run_s_id(tmp_path: Path) -> None:
    from pipeline.run import Run

    strict = RunSettings(checks=CheckSettings(newest_job=NewestJob(mode="block")))
    ids = {Run(settings, (), ("a",), ("b",)).run_id for settings in (RunSettings(), strict)}
    assert len(ids) == 1
