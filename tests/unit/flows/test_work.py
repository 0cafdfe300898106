"""The work folder: finished steps are found again, damaged ones are not, and nothing piles up."""

from pathlib import Path

import pytest

from flows.services.run.work_folder import find_step, keep_step, record_run, work_folder
from pipeline.core.report import Report, Tally
from pipeline.core.tables import FITS
from pipeline.run import STEPS

FIT = next(step for step in STEPS if step.name == "fit")
REPORT = Report("fit", "group", Tally(2), Tally(1), {"no_usable_fit": Tally(1)}, {"a": 1}, ("note",))


def keep(folder: Path) -> None:
    keep_step(folder, {"fits": FITS.empty()}, REPORT)


def test_a_kept_step_is_found_with_its_report(tmp_path: Path) -> None:
    assert find_step(tmp_path / "fit-k", FIT) is None
    keep(tmp_path / "fit-k")
    found = find_step(tmp_path / "fit-k", FIT)
    assert found is not None and found.report == REPORT and found.tables == {"fits": tmp_path / "fit-k/fits.parquet"}


@pytest.mark.parametrize("damage", ["truncate", "remove", "no report", "bad report"])
def test_a_damaged_step_is_done_again(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "fit-k"
    keep(folder)
    fits, report = folder / "fits.parquet", folder / "report.json"
    {
        "truncate": lambda: fits.write_bytes(fits.read_bytes()[:-1]),
        "remove": fits.unlink,
        "no report": report.unlink,
        "bad report": lambda: report.write_text("{}"),
    }[damage]()
    assert find_step(folder, FIT) is None
    assert not folder.exists()


def test_another_run_may_have_kept_the_same_step(tmp_path: Path) -> None:
    keep(tmp_path / "fit-k")
    keep(tmp_path / "fit-k")
    assert [path.name for path in tmp_path.iterdir()] == ["fit-k"]


def test_a_failed_first_run_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), work_folder(tmp_path / "a/b/out") as work:
        (work / ".draft-x-1").mkdir()
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_its_finished_steps_and_success_prunes(tmp_path: Path) -> None:
    def run(run_id: str, *names: str) -> None:
        with work_folder(tmp_path / "out") as work:
            for name in names:
                if not (work / name).exists():
                    keep(work / name)
            if run_id == "failed":
                raise RuntimeError
            record_run(work, run_id, [work / name for name in names])

    def there() -> set[str]:
        return {path.name for path in (tmp_path / "out/work").iterdir() if path.is_dir()}

    run("r1", "fit-1")
    with pytest.raises(RuntimeError):
        run("failed", "fit-f")
    assert there() == {"fit-1", "fit-f"}
    run("r2", "fit-2")
    assert there() == {"fit-1", "fit-2"}
    run("r2", "fit-2")
    run("r3", "fit-3")
    assert there() == {"fit-2", "fit-3"}


def test_runs_beside_each_other_leave_the_others_drafts_alone(tmp_path: Path) -> None:
    with work_folder(tmp_path / "out") as work:
        (work / ".draft-fit-k-1").mkdir()
        with work_folder(tmp_path / "out"):
            pass
        assert (work / ".draft-fit-k-1").exists()
    assert not (tmp_path / "out").exists()
