"""The lock of a folder: never waited for where no folder can be."""

from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.publish.store import acquire, remove_leftovers


def test_a_place_without_folders_is_refused_at_once() -> None:
    """Linux says "no such file" for a folder under /proc, as it would for one whose parent was just removed."""
    with pytest.raises(InputError, match=r"/proc/x/work: found a folder that cannot be created"):
        acquire(Path("/proc/x/work"))


def test_a_folder_that_goes_between_making_and_opening_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Path] = []
    mkdir = Path.mkdir

    def vanishing(path: Path, *arguments: object, **named: object) -> None:
        mkdir(path, *arguments, **named)
        made.append(path)
        if len(made) < 3:
            path.rmdir()

    monkeypatch.setattr(Path, "mkdir", vanishing)
    handle = acquire(tmp_path / "work")
    assert handle is not None and len(made) == 3
    handle.close()


def test_what_a_dead_writer_left_goes_whether_it_is_a_folder_a_file_or_a_link(tmp_path: Path) -> None:
    work, kept = tmp_path / "work", tmp_path / "kept"
    (work / ".fit-k.1.draft" / "parts").mkdir(parents=True)
    (work / ".flow_run.1.draft").touch()
    (work / ".draft-fit-k-1").mkdir()  # as 0.2.0 named it
    (work / "fit-k").mkdir()
    kept.mkdir()
    (kept / "table").touch()
    (work / ".link.1.draft").symlink_to(kept)
    remove_leftovers(work)
    assert [path.name for path in work.iterdir()] == ["fit-k"] and (kept / "table").exists()
