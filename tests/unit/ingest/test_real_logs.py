"""The archive's logs beside the checkout, whole: as many jobs as their data sheet says, and what each is known for."""

import re
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.ingest import ingest
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings

DATA = Path(__file__).parents[4] / "shared" / "data"
JOBS_BY_LOG = {
    "ALCF-Mira-2018": 22_508,
    "ALCF-Theta-2022-2023": 23_387,
    "CTC-SP2-1996-3.1-cln": 77_222,
    "DOST-ASTI-COARE-Saliksik-2020-cln": 19_760,
    "HPC2N-2002-2.2-cln": 202_871,
    "KTH-SP2-1996-2.1-cln": 28_476,
    "LCG-2005-1": 188_041,
    "LLNL-Atlas-2006-2.1-cln": 43_778,
    "LPC-EGEE-2004-1.2-cln": 234_889,
    "METACENTRUM-2009-2": 103_656,
    "MetaCentrum-wagap-2013": 17_900,
    "NASA-iPSC-1993-3.1-cln": 18_239,
    "NASA-iPSC-1993-3": 42_264,
    "OSC-Clust-2000-3.1-cln": 36_097,
    "RICC-2010-2": 447_794,
    "Sandia-Ross-2001-1.1-cln": 57_882,
    "SDSC-BLUE-2000-4.2-cln": 243_306,
    "SDSC-DS-2004-2.1-cln": 96_069,
    "SDSC-Par-1996-3.1-cln": 32_135,
    "SDSC-SP2-1998-4.2-cln": 59_715,
}
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="REAL LOGS NOT READ: no folder shared/data beside the checkout"),
]


@cache
def read(name: str) -> tuple[pa.Table, pa.Table, Report]:
    return ingest([DATA / "swf" / f"{name}.swf.gz"], SiteSettings(name=name), IngestSettings())


@pytest.mark.parametrize(("name", "n_jobs"), JOBS_BY_LOG.items())
def test_a_real_log_has_as_many_jobs_as_its_data_sheet_says(name: str, n_jobs: int) -> None:
    jobs, unreadable, report = read(name)
    assert (jobs.num_rows, unreadable.num_rows, report.set_aside["superseded"].rows) == (n_jobs, 0, 0)
    assert report.check().kept.rows == n_jobs
    assert report.kept.proc_s > 0


def test_every_log_of_the_folder_is_read() -> None:
    sheet = (DATA / "README.md").read_text()
    said = re.findall(r"\| swf/(\S+)\.swf\.gz \| [^|]* \| ([\d,]+) \|", sheet)
    assert {name: int(number.replace(",", "")) for name, number in said} == JOBS_BY_LOG


def test_known_facts_of_known_logs() -> None:
    blue, _, report = read("SDSC-BLUE-2000-4.2-cln")
    first = blue.slice(0, 1).to_pylist()[0]
    assert (first["job_id"], first["submit_s"], first["start_s"]) == ("9", 956700003 + 430593, 956700003 + 430606)
    assert (first["runtime_s"], first["procs"], first["user"], first["queue"]) == (50866.0, 256, "95", "low")
    assert (report.facts["max_procs"], report.facts["installation"]) == (1152, "SDSC Blue Horizon")
    ross, _, report = read("Sandia-Ross-2001-1.1-cln")
    assert set(ross["state"].unique().to_pylist()) == {None, "COMPLETED", "FAILED"}
    assert any("exit code" in note for note in report.notes)
    _, _, report = read("MetaCentrum-wagap-2013")
    assert any("17900 lines have more than 18 fields" in note for note in report.notes)
    _, _, report = read("NASA-iPSC-1993-3")
    assert any("no wait times" in note for note in report.notes)
    _, _, report = read("ALCF-Theta-2022-2023")
    assert any("backwards 8056 times" in note for note in report.notes)


def test_the_argonne_dialect_has_its_request_in_field_six() -> None:
    settings = IngestSettings(columns={"requested_s": 6, "nodes": 5})
    jobs, _, _ = ingest([DATA / "swf" / "ALCF-Mira-2018.swf.gz"], SiteSettings(), settings)
    first = jobs.slice(0, 1).to_pylist()[0]
    assert (first["requested_s"], first["cpu_s"], first["nodes"]) == (18000.0, None, 512)
