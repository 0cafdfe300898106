"""The readers of `make test-crash` see a mixed, a torn and an unknown version."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.publish import Retention, RunFacts
from pipeline.storage import write_table
from pipeline.tables import JOBS
from tests.crash.nights import expected_version
from tests.crash.read_store import LIBRARIES, look
from tests.publishing import publish
from tests.unit.publish.versions_of_tables import folder_of


def put(out: Path, site: str, n_jobs: int) -> dict[str, Any]:
    sites, numbers = [site] * n_jobs, [str(n) for n in range(n_jobs)]
    jobs = JOBS.build(site=sites, job_id=numbers, restart=[0] * n_jobs, source_file=sites, source_line=[1] * n_jobs)
    staged = {"jobs": write_table(out.parent / site / "jobs.parquet", jobs, JOBS)}
    publish(
        staged,
        [],
        RunFacts(f"run-{site}", site, {}, [], "code"),
        output_dir=out,
        created_s=0,
        retention=Retention(newest=3),
    )
    return expected_version(out)


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_a_reader_finds_what_is_wrong_with_a_version(tmp_path: Path, library: str) -> None:
    out = tmp_path / "out"
    expected = {version["run_id"]: version for version in (put(out, "a", 2), put(out, "b", 3))}
    assert look(out, expected, library) == ("run-b", [])
    assert "is none that an undisturbed run makes" in look(out, {"run-a": expected["run-a"]}, library)[1][0]
    path, other = (folder_of(out, run_id) / "jobs.parquet" for run_id in ("run-b", "run-a"))
    whole = path.read_bytes()
    path.write_bytes(other.read_bytes())
    assert [found.split(": ")[1].split(" ")[0] for found in look(out, expected, library)[1]] == ["hash", "2", "site"]
    path.write_bytes(whole[: len(whole) // 2])
    assert look(out, expected, library)[1] != []
    path.unlink()
    assert look(out, expected, library)[1] != []
    path.write_bytes(whole)
    manifest = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(manifest | {"site": "a"}))
    assert "site ['b'], manifest ['a']" in look(out, expected, library)[1][0]
