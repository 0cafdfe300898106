"""Every sacct dump beside the checkout: counts, and the real Slurm's jobs against the truth of what was submitted."""

import csv
import gzip
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.formats.sacct import SACCT
from pipeline.ingest.reader import STEPS, chunks_of
from pipeline.ingest.sources import Source
from pipeline.settings import IngestSettings, SiteSettings

DATA = Path(__file__).parents[4] / "shared" / "data" / "sacct"
REAL, CGROUP = "real-slurm-22.05.8", "real-slurm-22.05.8-cgroup"
FIELDS = [
    "JobIDRaw",
    "JobID",
    "JobName",
    "User",
    "Account",
    "Partition",
    "QOS",
    "Submit",
    "Eligible",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "ReqCPUS",
    "AllocCPUS",
    "NNodes",
    "ReqMem",
    "ReqTRES",
    "AllocTRES",
    "State",
    "ExitCode",
    "WorkDir",
    "Comment",
    "SubmitLine",
]
SLYME = "User JobID JobName State Partition NCPUS NNodes Elapsed TotalCPU UserCPU SystemCPU ReqMem MaxRSS Submit Start "
SLYME_FIELDS = f"{SLYME} End NodeList".split()

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="REAL LOGS NOT READ: no folder shared/data beside the checkout"),
]
COUNTS = {
    # file: lines, jobs, steps, continued, unreadable
    "drac-cedar-2021.txt.gz": (125_117, 125_116, 0, 0, 0),
    "slurm2sql-test-data1.csv": (6, 2, 3, 0, 0),
    "slurm2sql-test-data2.csv": (6, 2, 3, 0, 0),
    "slurm_sim_tools-sacct_dump2101.log": (16, 11, 2, 0, 2),
    "slurm_sim_tools-sacct_dump2110.log": (8, 5, 2, 0, 0),
    "slurm_sim_tools-sacct_simple.log": (5, 1, 0, 0, 3),
    "slyme-parallel-completed.out": (3, 1, 2, 0, 0),
    "slyme-serial-completed.out": (2, 1, 1, 0, 0),
    "xdmod-phillips.log.gz": (4285, 4285, 0, 0, 0),
    "xdmod-unit-accounting-logs-with-job-arrays.log": (6, 6, 0, 0, 0),
    "xdmod-unit-accounting-logs.log": (4, 4, 0, 0, 0),
    "xdmod-unit-non-ended-job-state.log": (2, 2, 0, 0, 0),
    "xdmod-unit-unknown-job-state.log": (2, 2, 0, 0, 0),
    "xdmod-unit-utf8-multibyte-chars.log": (1, 1, 0, 0, 0),
    f"{CGROUP}/sacct-P-ALL-duplicates.txt.gz": (101, 28, 72, 0, 0),
    f"{CGROUP}/sacct-P-ALL.txt.gz": (101, 28, 72, 0, 0),
    f"{CGROUP}/sacct-X-duplicates.txt.gz": (29, 28, 0, 0, 0),
    f"{CGROUP}/sacct-X-noconvert.txt.gz": (29, 28, 0, 0, 0),
    f"{CGROUP}/sacct-X-parsable2.txt.gz": (29, 28, 0, 0, 0),
    f"{CGROUP}/sacct-X-units-M.txt.gz": (29, 28, 0, 0, 0),
    f"{CGROUP}/sacct-steps-parsable-trailing-pipe.txt.gz": (101, 28, 72, 0, 0),
    f"{CGROUP}/sacct-steps-parsable2.txt.gz": (101, 28, 72, 0, 0),
    f"{REAL}/sacct-P-ALL-duplicates.txt.gz": (1028, 507, 514, 6, 0),
    f"{REAL}/sacct-P-ALL.txt.gz": (1024, 505, 512, 6, 0),
    f"{REAL}/sacct-X-delim-multichar.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-delim-us.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-duplicates.txt.gz": (514, 507, 0, 6, 0),
    f"{REAL}/sacct-X-lc-c.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-lc-de.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-midrun-snapshot.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-noconvert.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-noheader.txt.gz": (511, 505, 0, 6, 0),
    f"{REAL}/sacct-X-parsable2.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-time-dmy-ampm.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-time-epoch.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-time-space-zone.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-tz-new-york.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-X-units-M.txt.gz": (512, 505, 0, 6, 0),
    f"{REAL}/sacct-steps-parsable-trailing-pipe.txt.gz": (1024, 505, 512, 6, 0),
    f"{REAL}/sacct-steps-parsable2.txt.gz": (1024, 505, 512, 6, 0),
}  # fmt: skip
REFUSED = {
    f"{REAL}/sacct-default-columns.txt.gz": "fixed width",
    f"{REAL}/sacct-fixed-width.txt.gz": "fixed width",
    f"{CGROUP}/sacct-default-columns.txt.gz": "fixed width",
    f"{CGROUP}/sacct-fixed-width.txt.gz": "fixed width",
    f"{REAL}/sacct-X-time-relative.txt.gz": "time without date",
    f"{REAL}/sacct-helpformat.txt.gz": "no column names",
    f"{REAL}/jobcomp-filetxt.txt.gz": "no column names",
}
Jobs = dict[tuple[str, int], dict[str, Any]]


def _settings(name: str) -> tuple[SiteSettings, IngestSettings]:
    fields = FIELDS if "noheader" in name else SLYME_FIELDS if "slyme" in name else []
    zone = "America/New_York" if "new-york" in name else "UTC"
    # The one dump whose last line has no end.
    last_line = "take" if name == "slurm2sql-test-data2.csv" else "set_aside"
    how = IngestSettings(fields=tuple(fields), day_first="dmy" in name, last_line=last_line)
    return SiteSettings(timezone=zone), how


@cache
def _read(name: str) -> tuple[Jobs, tuple[int, int, int, int, int]]:
    site, settings = _settings(name)
    chunks = list(chunks_of(SACCT, Source(DATA / name, name), site, settings))
    jobs = pa.concat_tables([chunk.jobs for chunk in chunks])
    parts = pa.concat_tables([chunk.parts or STEPS.empty_table() for chunk in chunks])
    lines: Counter[str] = sum((Counter(chunk.lines) for chunk in chunks), Counter())
    n_unreadable = sum(chunk.unreadable.num_rows for chunk in chunks)
    n_lines = sum(chunk.n_lines for chunk in chunks)
    assert n_lines == jobs.num_rows + parts.num_rows + n_unreadable + lines.total()
    assert SACCT.fold is not None
    folded = SACCT.fold(jobs, parts, site, settings)
    lines += Counter(folded.lines)
    assert not lines["orphan_step"]
    rows = {(row["job_id"], row["submit_s"]): row for row in folded.jobs.to_pylist()}
    return rows, (n_lines, jobs.num_rows, lines["step"], lines["continued"], n_unreadable)


def test_every_dump_is_in_these_lists() -> None:
    found = {str(p.relative_to(DATA)).replace(os.sep, "/") for p in DATA.rglob("*") if p.is_file()}
    dumps = {name for name in found if "sacct" in Path(name).name or "/" not in name}
    others = ("eagle-sample.csv", "json.gz", "sacctmgr-events.txt.gz", "sacctmgr-tres.txt.gz")
    assert {name for name in dumps if not name.endswith(others)} <= {*COUNTS, *REFUSED}


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    assert _read(name)[1] == COUNTS[name]


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    with pytest.raises(InputError, match=REFUSED[name]):
        _read(name)


@pytest.mark.parametrize("name", [name for name in COUNTS if name.startswith(f"{REAL}/") and "midrun" not in name])
def test_every_variant_of_the_same_dump_tells_the_same(name: str) -> None:
    """A column may be unknown where a variant lacks its field; where both know it they agree."""
    plain, other = _read(f"{REAL}/sacct-X-parsable2.txt.gz")[0], _read(name)[0]
    assert plain.keys() <= other.keys()
    for key, row in plain.items():
        for column in row.keys() - {"source_file", "source_line"}:
            may_lack = "X-" not in name and (row[column] is None or other[key][column] is None)
            assert may_lack or row[column] == other[key][column], (key, column)


def test_each_job_is_what_was_submitted() -> None:
    rows, _ = _read(f"{REAL}/sacct-P-ALL-duplicates.txt.gz")
    last = {job_id: row for (job_id, _), row in sorted(rows.items(), key=lambda item: item[0][1])}
    with gzip.open(DATA / REAL / "truth.tsv.gz", "rt") as lines:
        truth = [row for row in csv.DictReader(lines, delimiter="\t") if row["job"] in last]
    assert len(truth) > 440
    for said in truth:
        job, procs = last[said["job"]], int(said["p"])
        assert job["user"] == said["user"]
        if not procs:
            continue
        assert (job["gpus"] if said["app"] == "train_ml" else job["procs"]) == procs
        assert job["job_name"] == said["app"]
        if job["state"] == "COMPLETED":
            assert -0.8 <= job["runtime_s"] - float(said["slept_seconds"]) <= 1.3
        else:
            assert job["state"] == ("FAILED" if said["note"] or job["exit_code"] else "TIMEOUT")


@pytest.mark.parametrize(
    ("job_id", "expected"),
    [
        ("129", {"state": "COMPLETED", "derived_exit_code": 2, "procs": 8}),
        ("130", {"max_rss_kib": 318636.0}),
        ("132", {"job_name": "pipe|in|name"}),
        ("137", {"job_name": "tab\tname"}),
        ("140", {"job_name": "new\nline", "runtime_s": 2.0}),
        ("142", {"job_name": "trailing space "}),
        ("174", {"state": "DEADLINE", "start_s": None}),
        ("176", {"requested_s": None}),
        ("178", {"runtime_s": 12.0, "suspended_s": 8.0}),
        ("182", {"state": "CANCELLED"}),
        ("184", {"state": "NODE_FAIL"}),
        ("102", {"state": "TIMEOUT", "runtime_s": 75.0, "requested_s": 60.0}),
        ("123+1", {"het_id": "123"}),
        ("113_19", {"array_id": "113"}),
    ],
)
def test_odd_jobs(job_id: str, expected: dict[str, object]) -> None:
    rows, _ = _read(f"{REAL}/sacct-P-ALL.txt.gz")
    (job,) = [row for (found, _), row in rows.items() if found == job_id]
    assert {name: job[name] for name in expected} == expected


def test_requeued_jobs_keep_both_attempts_with_their_own_memory() -> None:
    rows, _ = _read(f"{REAL}/sacct-P-ALL-duplicates.txt.gz")
    attempts = sorted(
        (row["submit_s"], row["state"], row["max_rss_kib"]) for row in rows.values() if row["job_id"] == "177"
    )
    assert [attempt[1:] for attempt in attempts] == [("REQUEUED", 4828.0), ("COMPLETED", 4864.0)]


def test_out_of_memory_in_a_step_shows_in_its_job() -> None:
    rows, _ = _read(f"{CGROUP}/sacct-P-ALL.txt.gz")
    ended = Counter((row["state"], row["derived_exit_code"]) for row in rows.values())
    assert ended["OUT_OF_MEMORY", 253] + ended["OUT_OF_MEMORY", 0] >= 1
    assert ended["COMPLETED", 253] >= 1
