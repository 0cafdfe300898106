"""The readers of `make test-crash` see a mixed, a torn and an unknown version, and none beside publications."""

import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.publish import Retention, read_version
from pipeline.storage import write_table
from pipeline.tables import JOBS
from tests.crash.nights import expected_version
from tests.crash.read_store import LIBRARIES, look
from tests.publishing import facts_of, publish
from tests.unit.publish.numbered_versions import NOON, Clock
from tests.unit.publish.versions_of_tables import folder_of

FORK = multiprocessing.get_context("forkserver")


def put(out: Path, site: str, n_jobs: int) -> dict[str, Any]:
    sites, numbers = [site] * n_jobs, [str(n) for n in range(n_jobs)]
    jobs = JOBS.build(site=sites, job_id=numbers, restart=[0] * n_jobs, source_file=sites, source_line=[1] * n_jobs)
    staged = {"jobs": write_table(out.parent / site / "jobs.parquet", jobs, JOBS)}
    publish(
        staged,
        [],
        facts_of(f"run-{site}", site, {}, [], "code"),
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


PUBLICATIONS, READS = 90, 1_400
HOUR_S = 3600


def _publish_many(folder: Path) -> None:
    clock = Clock(folder)
    for number in range(PUBLICATIONS):
        clock.publish(float(number), NOON + number * HOUR_S, retention=Retention(newest=2, all_days=1))


def test_no_read_beside_publications_is_torn(tmp_path: Path) -> None:
    """1,400 reads without a lock, by pandas and DuckDB in turn, while another process publishes 90 versions."""
    Clock(tmp_path).publish(1000.0, NOON - 1)
    writer, seen, n_beside = FORK.Process(target=_publish_many, args=(tmp_path,)), set(), 0
    writer.start()
    n_reads = 0
    while n_reads < READS or writer.is_alive():
        library = LIBRARIES[sorted(LIBRARIES)[n_reads % len(LIBRARIES)]]
        found: set[str] = set()
        manifest = read_version(tmp_path / "out")
        for name, column in (("fits", "t1_s"), ("observations", "runtime_s_median")):
            found |= library(str(manifest.path(name)), column)[1]
        assert len(found) == 1
        seen |= found
        n_reads, n_beside = n_reads + 1, n_beside + writer.is_alive()
    writer.join()
    sys.stdout.write(
        f"{n_reads} reads, {n_beside} of them beside {PUBLICATIONS} publications, {len(seen)} versions seen\n"
    )
    assert writer.exitcode == 0 and len(seen) > PUBLICATIONS / 10
    # Those of the last day, and the one that was published a day ago until then.
    assert len(Clock(tmp_path).folders) <= 26
