"""A limit that Walltime lowered: the accounting has the new one, and JOBS the one that the user asked for."""

from pathlib import Path

import pytest

from pipeline.ingest import ingest
from pipeline.ingest.slurm_texts import asked_s_of, limit_comment, noted_by_of, noted_s_of, set_s_of
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.test_sacct import NAMES, changed
from tests.unit.ingest.test_sacct_json import document, old_job

LOWERED = limit_comment("limit", "stamp=0a1b row=2 jobs=7 median_s=5", 3, 45)


@pytest.mark.parametrize(
    ("comment", "asked_s"),
    [
        (LOWERED, 2700.0),
        (f"ticket 7; {LOWERED}", 2700.0),
        (f"{LOWERED}; walltime mode=limit stamp=0 limit_min=2 asked_min=3", 2700.0),
        (limit_comment("dry_run", "row=2", None, None), None),
        ("asked_min=45", None),
        ("not walltime mode=limit asked_min=45", None),
        ("walltime mode=limit x; asked_min=45", None),
        ("walltime mode=limit asked_min=99999999999999", None),
        ("", None),
    ],
)
def test_the_first_comment_of_ours_tells_the_limit(comment: str, asked_s: float | None) -> None:
    assert asked_s_of(comment) == asked_s


@pytest.mark.parametrize(
    ("comment", "set_s", "by"),
    [
        (LOWERED, 180.0, "plug-in 0a1b"),
        (limit_comment("limit", "run=guard", 5, 45), 300.0, "guard"),
        (f'"{LOWERED}"', 180.0, "plug-in 0a1b"),
        (limit_comment("dry_run", "stamp=0a1b", 3, 45), 180.0, "dry_run 0a1b"),
        (limit_comment("limit", "stamp=0a1b", None, 45), None, ""),
        ("walltime mode=limit nobody limit_min=3 asked_min=45", 180.0, ""),
        ("ticket 7", None, ""),
    ],
)
def test_it_tells_what_was_set_and_by_whom(comment: str, set_s: float | None, by: str) -> None:
    assert (noted_s_of(comment), noted_by_of(comment)) == (set_s, by)
    assert set_s_of(comment) == (None if by.startswith("dry_run") else set_s)


def test_jobs_keep_the_first_limit_and_the_request(tmp_path: Path) -> None:
    """The guard has raised the second, the third has a comment of others, of two others somebody changed the limit."""
    rows = [
        f"{changed(TimelimitRaw='3')}|{LOWERED}", f"{changed(JobID='8', TimelimitRaw='44')}|{LOWERED}",
        f"{changed(JobID='9')}|ticket 7",
        f"{changed(JobID='10', TimelimitRaw='2')}|{LOWERED}", f"{changed(JobID='11', TimelimitRaw='50')}|{LOWERED}",
    ]  # fmt: skip
    (tmp_path / "dump").write_text("\n".join([f"{NAMES}|AdminComment", *rows, ""]))
    jobs = ingest([tmp_path / "dump"], SiteSettings(name="c"), IngestSettings())[0]
    assert jobs["limit_set_s"].to_pylist() == [180.0, 180.0, None, None, None]
    assert jobs["limit_set_by"].to_pylist() == ["plug-in 0a1b", "plug-in 0a1b", None, None, None]
    requested_s = jobs["requested_s"].to_pylist()
    assert requested_s[:2] == [2700.0, 2700.0] and requested_s[3:] == [120.0, 3000.0]


def requested(folder: Path, text: str | bytes) -> list[float | None]:
    (folder / "dump").write_bytes(text.encode() if isinstance(text, str) else text)
    return ingest([folder / "dump"], SiteSettings(name="c"), IngestSettings())[0]["requested_s"].to_pylist()


def test_the_text_of_sacct_tells_it(tmp_path: Path) -> None:
    rows = [f"{changed()}|{LOWERED}", f"{changed(JobID='8')}|", f"{changed(JobID='9')}|ticket 7"]
    plain = requested(tmp_path, "\n".join([NAMES, changed(), ""]))
    assert plain != [2700.0]
    found = requested(tmp_path, "\n".join([f"{NAMES}|AdminComment", *rows, ""]))
    assert found == [2700.0, *plain, *plain]


def test_the_json_of_sacct_tells_it(tmp_path: Path) -> None:
    job = old_job()
    plain = requested(tmp_path, document(job))
    job["comment"] = {"administrator": LOWERED, "job": "asked_min=9", "system": None}
    assert requested(tmp_path, document(job)) == [2700.0] != plain
