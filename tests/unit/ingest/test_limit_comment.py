"""A limit that Walltime lowered: the accounting has the new one, and JOBS the one that the user asked for."""

from pathlib import Path

import pytest

from pipeline.ingest import ingest
from pipeline.ingest.live import asked_s_of, limit_comment
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
