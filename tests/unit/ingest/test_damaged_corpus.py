"""The damaged files of tests/fuzz/corpus: each line has the fate that the table beside them says."""

from pathlib import Path

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.settings import IngestSettings, SiteSettings

CORPUS = Path(__file__).parents[2] / "fuzz" / "corpus"
TABLE = "fates.txt"


def fates(path: Path) -> list[tuple[str, str, str]]:
    """File, line and fate of each line; one line 0 for a file that is refused."""
    try:
        jobs, unreadable, report = ingest([path], SiteSettings(name="here"), IngestSettings())
    except InputError:
        return [(path.name, "0", "refused")]
    report.check()
    found = {job["source_line"]: f"job {job['job_id']}, start {job['start_s']}" for job in jobs.to_pylist()}
    found |= {one["source_line"]: f"set aside: {one['reason']}" for one in unreadable.to_pylist()}
    n_lines = len(path.read_bytes().splitlines())
    return [(path.name, str(line), found.get(line, "no record")) for line in range(1, n_lines + 1)]


def test_each_damaged_line_has_its_fate() -> None:
    rows = [line.split("|", 2) for line in (CORPUS / TABLE).read_text(encoding="utf-8").splitlines()[2:]]
    expected = [tuple(cell.strip() for cell in row) for row in rows]
    found = [row for path in sorted(CORPUS.iterdir()) if path.name != TABLE for row in fates(path)]
    assert found == expected
