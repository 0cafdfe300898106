"""Every file of logs beside the checkout is told by its content alone: no test here names a format."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from pipeline.ingest import inspect
from pipeline.settings import IngestSettings, SiteSettings

DATA = Path(__file__).parents[4] / "shared" / "data"
FOLDERS = ("swf", "sacct", "pbs", "tables")
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="FORMATS NOT TOLD: no folder shared/data beside the checkout"),
]

NO_LOG = "if it is a table with a row for each job, --format table says what it lacks"
LACKS = "expected columns for submit_s, start_s or end_s, and for runtime_s or both start_s and end_s"
EXPECTED = {
    "swf/*.swf.gz": "swf",
    "pbs/*.acct": "pbs",
    "pbs/torque-*.gz": "pbs",
    "pbs/real-openpbs-*/2*.gz": "pbs",
    "pbs/real-openpbs-*/qstat-xf.json.gz": NO_LOG,
    "sacct/*/sacct*.json.gz": "sacct_json",
    "sacct/*/sacct-[PXs]*.txt.gz": "sacct",
    "sacct/drac-*": "sacct",
    "sacct/slurm*": "sacct",
    "sacct/xdmod-*": "sacct",
    "sacct/slyme-*": "set ingest.fields to the fields of the dump",
    "sacct/*/sacct-X-noheader.txt.gz": "set ingest.fields to the fields of the dump",
    "sacct/*/sacct-X-time-dmy-ampm.txt.gz": "not a time",
    "sacct/*/sacct-X-time-relative.txt.gz": "time without date",
    "sacct/*/sacct-default-columns.txt.gz": "columns of fixed width",
    "sacct/*/sacct-fixed-width.txt.gz": "columns of fixed width",
    "sacct/*/sacct-helpformat.txt.gz": NO_LOG,
    "sacct/*/sacctmgr-events.txt.gz": NO_LOG,
    "sacct/*/sacctmgr-tres.txt.gz": LACKS,
    "sacct/*/jobcomp-*": "jobcomp",
    "sacct/*/sreport-*": NO_LOG,
    "sacct/eagle-sample.csv": "table",
    "tables/*": "table",
    "*/truth.tsv.gz": LACKS,
    "*/README.md": NO_LOG,
    "*/laws.json": NO_LOG,
}
"""The format of each file, or what its refusal says. The last pattern that fits counts."""


def files() -> list[str]:
    found = (path for folder in FOLDERS for path in (DATA / folder).rglob("*") if path.is_file())
    return sorted(path.relative_to(DATA).as_posix() for path in found)


@pytest.mark.parametrize("name", files() if DATA.is_dir() else [])
def test_the_content_of_each_file_tells_its_format(name: str) -> None:
    expected = [kind for pattern, kind in EXPECTED.items() if fnmatch(name, pattern)]
    assert expected, f"{name} has no expected format: add it to EXPECTED"
    (seen,) = inspect([DATA / name], SiteSettings(), IngestSettings())
    if expected[-1] in ("swf", "pbs", "sacct", "sacct_json", "table", "jobcomp"):
        assert (seen.format, seen.error) == (expected[-1], None) and seen.jobs.num_rows > 0
    else:
        assert seen.error is not None and expected[-1] in seen.error


def test_all_folders_are_there() -> None:
    assert len(files()) >= 80 and {name.split("/")[0] for name in files()} == set(FOLDERS)
