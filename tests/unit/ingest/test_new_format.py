"""A new log format is one file and one line in the registry: the example of CONTRIBUTING and docs/samples."""

import re
import sys
from pathlib import Path

import pytest

from pipeline import settings
from pipeline.errors import InputError
from pipeline.ingest import FORMATS, ingest
from pipeline.ingest.reader import reader_named
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.logs import row

ROOT = Path(__file__).parents[3]
READER = (ROOT / "docs" / "samples" / "toy_format.py").read_text()
EXAMPLE = (ROOT / "CONTRIBUTING.md").read_text().split("## A worked example: a new log format\n")[1]


def block(language: str) -> str:
    """The example's first code block in a language."""
    found = re.search(rf"```{language}\n(.*?)```", EXAMPLE, re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample on disk, with the example's reader registered beside the others."""
    (tmp_path / "toy_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(FORMATS, "toy", "toy_reader:TOY")
    monkeypatch.setattr(settings, "LOG_FORMATS", (*settings.LOG_FORMATS, "toy"))
    monkeypatch.delitem(sys.modules, "toy_reader", raising=False)
    log = tmp_path / "log.toy"
    log.write_text(block("text").rstrip("\n"))
    return log


def test_the_example_s_sample_is_read(sample: Path) -> None:
    jobs, unreadable, report = ingest([sample], SiteSettings(name="here"), IngestSettings())
    columns = ("job_id", "submit_s", "start_s", "end_s", "procs", "runtime_s", "source_line")
    assert [tuple(job[name] for name in columns) for job in jobs.to_pylist()] == [
        ("1", 1000, 1010, 1070, 4, 60.0, 2),
        ("2", 1005, 1070, 1100, 8, 30.0, 3),
    ]
    assert [(bad["source_line"], bad["byte_offset"], bad["reason"]) for bad in unreadable.to_pylist()] == [
        (4, 43, "not_a_record"),
        (5, 65, "no_line_end"),
    ]
    assert report.seen.rows == 5


def test_it_is_read_beside_another_format(sample: Path) -> None:
    other = sample.with_name("log.swf")
    other.write_text(row(job_id=7) + "\n")
    jobs, _, _ = ingest([sample, other], SiteSettings(name="here"), IngestSettings())
    assert sorted(jobs["job_id"].to_pylist()) == ["1", "2", "7"]


def test_a_user_can_ask_for_it(sample: Path) -> None:
    jobs, _, _ = ingest([sample], SiteSettings(name="here"), IngestSettings(format="toy"))
    assert jobs.num_rows == 2


def test_a_name_that_is_no_format_lists_those_there_are(sample: Path) -> None:
    with pytest.raises(ValueError, match=r"one of auto, swf, .*, toy"):
        IngestSettings(format="toys")


def test_a_strict_reading_names_the_line(sample: Path) -> None:
    with pytest.raises(InputError, match=r"log\.toy, line 4"):
        ingest([sample], SiteSettings(name="here"), IngestSettings(max_damaged=0))


def test_the_guide_s_line_has_the_form_of_the_registry_s() -> None:
    line = block("py").strip()
    assert line == '"toy": "pipeline.ingest.formats.toy:TOY",'
    assert line.replace("toy", "swf").replace("TOY", "SWF") == f'"swf": "{FORMATS["swf"]}",'


def test_the_settings_name_the_formats_of_the_registry() -> None:
    assert tuple(FORMATS) == settings.LOG_FORMATS
    assert all(reader_named(name).name == name for name in settings.LOG_FORMATS)
