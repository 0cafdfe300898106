"""`ingest` against plain readers of every real log beside the checkout: as many jobs, as long, as much processor time.

What `ingest` sets aside is named by its reason, with its number; apart from that nothing may differ. Logs of more than
700 kB are read by `make test-logs` alone, which sets WALLTIME_ALL_LOGS=1 (half a minute in all).
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.arrays import floats
from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings
from tests import independent_readers
from tests.independent_readers import PlainJob

DATA = Path(__file__).parents[4] / "shared" / "data"
FOLDERS = ("swf", "sacct", "pbs", "tables")
IS_ALL, MOST_BYTES = os.environ.get("WALLTIME_ALL_LOGS") == "1", 700_000
pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="REAL LOGS NOT READ: no folder shared/data beside the checkout"),
]

OTHERS = (
    # No logs of jobs.
    "README.md", "laws.json", "truth.tsv.gz", "sacctmgr-events.txt.gz", "sacctmgr-tres.txt.gz",
    "sreport-utilization.txt.gz", "sacct-helpformat.txt.gz",
    # Forms that Walltime does not read, and refuses (test_sacct_real.py).
    "jobcomp-filetxt.txt.gz", "qstat-xf.json.gz", "sacct-default-columns.txt.gz", "sacct-fixed-width.txt.gz",
    "sacct-X-time-relative.txt.gz",
)  # fmt: skip
SET_ASIDE = {
    # One job stands in the file five times.
    "sacct/slurm_sim_tools-sacct_dump2110.log": {"superseded": 4},
    # Tasks of one array under one id, with equal times.
    "sacct/eagle-sample.csv": {"superseded": 41},
    # Lines that were cut: the end of a job, and a step.
    "sacct/slurm_sim_tools-sacct_dump2101.log": {"too_few_fields": 1},
    "sacct/slurm2sql-test-data2.csv": {"cut_off": 1},
}
NOT_READ_YET: dict[str, str] = {}
FORMAL = ("comment", "blank", "header", "step", "continued", "array_parent", "event_", "other_")
"""Reasons of lines that are no job's own."""

NO_HEADER = (  # noqa: SIM905
    "JobIDRaw JobID JobName User Account Partition QOS Submit Eligible Start End ElapsedRaw TimelimitRaw ReqCPUS "
    "AllocCPUS NNodes ReqMem ReqTRES AllocTRES State ExitCode WorkDir Comment SubmitLine"
).split()
SLYME = (  # noqa: SIM905
    "User JobID JobName State Partition NCPUS NNodes Elapsed TotalCPU UserCPU SystemCPU ReqMem MaxRSS Submit Start End "
    "NodeList"
).split()
XDMOD = (  # noqa: SIM905
    "JobID JobIDRaw Cluster Partition QOS Account Group GID User UID Submit Eligible Start End Elapsed ExitCode State "
    "NNodes NCPUS ReqCPUS ReqMem ReqTRES AllocTRES Timelimit NodeList JobName"
).split()
TABLES: Mapping[str, tuple[str | None, tuple[str, ...], str, str]] = {
    # id, times, processors (or what stands for them), runtime
    "sacct/eagle-sample.csv": ("job_id", ("submit_time", "start_time", "end_time"), "processors_req", "run_time"),
    "tables/philly-2017.csv.gz": (None, ("timestamp",), "num_gpus", "duration"),
    "tables/kestrel-2024-ground_truth.parquet": (None, ("submit",), "nodes", "runtime"),
    "tables/cirrus-2024-09.csv.gz": ("ID", ("Submit Time",), "Nodes", "Makespan"),
}


def real_logs() -> list[Any]:
    """The logs of the folders, and of them those that are small enough; marked where they are not read yet."""
    found = []
    for folder in FOLDERS:
        for path in sorted((DATA / folder).rglob("*")):
            name = path.relative_to(DATA).as_posix()
            if path.is_dir() or path.name in OTHERS or (path.stat().st_size > MOST_BYTES and not IS_ALL):
                continue
            why = NOT_READ_YET.get(name)
            marks = [pytest.mark.xfail(reason=why, raises=InputError)] if why else []
            found.append(pytest.param(name, marks=marks))
    return found


def plainly_read(name: str) -> list[PlainJob]:
    """The log as the plain reader of its format reads it."""
    path = DATA / name
    if name in TABLES:
        return independent_readers.table(path, *TABLES[name])
    if not name.startswith("sacct/"):
        return {"swf": independent_readers.swf, "pbs": independent_readers.pbs}[name.partition("/")[0]](path)
    if ".json" in name:
        return independent_readers.sacct_json(path)
    return independent_readers.sacct_text(path, names_of(name) or (XDMOD if "xdmod" in name else ()))


def names_of(name: str) -> list[str]:
    """The columns of a dump without a first line of names, which the settings must give."""
    return NO_HEADER if "noheader" in name else SLYME if "slyme" in name else []


def last_of_each(jobs: list[PlainJob]) -> list[PlainJob]:
    """Of the records of one job the one that ends last."""
    last: dict[tuple[str, str], PlainJob] = {}
    for job in jobs:
        last[job.job_id, job.submit] = max(last.get((job.job_id, job.submit), job), job, key=lambda one: one.order)
    return list(last.values())


IN_DOUBT = {"sacct/slurm_sim_tools-sacct_dump2101.log": 1, "sacct/slurm_sim_tools-sacct_simple.log": 3}
"""Jobs with the delimiter in a text beside another text, which the plain reader takes and ingest sets aside."""


@pytest.mark.parametrize("name", real_logs())
def test_a_real_log_has_the_jobs_that_a_plain_reader_finds(name: str) -> None:
    plain = plainly_read(name)
    jobs = last_of_each(plain)
    site = SiteSettings(name="here", timezone="America/New_York" if "new-york" in name else "UTC")
    settings = IngestSettings(fields=tuple(names_of(name)), day_first="dmy" in name)
    found, _, report = ingest([DATA / name], site, settings)
    if name in IN_DOUBT:
        n_doubtful = report.set_aside["ambiguous_fields"].rows
        assert (n_doubtful, found.num_rows) == (IN_DOUBT[name], len(jobs) - IN_DOUBT[name])
        return

    runtimes = np.array([job.runtime_s or 0.0 for job in jobs])
    proc_s = np.array([job.procs or 0.0 for job in jobs]) * np.maximum(runtimes, 0.0)
    assert (found.num_rows, report.kept.rows) == (len(jobs), len(jobs))
    assert report.kept.proc_s / 3600 == pytest.approx(proc_s.sum() / 3600, rel=1e-9)
    # Job by job: equal sums of other values would not do.
    assert np.array_equal(np.sort(np.nan_to_num(floats(found, "runtime_s"))), np.sort(runtimes))

    set_aside = {reason: tally.rows for reason, tally in report.set_aside.items() if tally.rows}
    named = {reason: n for reason, n in set_aside.items() if not reason.startswith(FORMAL)}
    assert named == SET_ASIDE.get(name, {})
    assert named.get("superseded", 0) == len(plain) - len(jobs)


def test_the_plain_readers_have_a_log_of_each_format() -> None:
    read = {name for param in real_logs() for name in param.values}
    parts = ("swf/", "sacct.json", "sacct-P-ALL", "real-openpbs", "torque", "philly", "KTH")
    assert all(any(part in name for name in read) for part in parts) and len(read) > 50
