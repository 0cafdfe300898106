"""Damaged or absurd inputs end in one sentence that says where, what was found and what to do."""

import gzip
from pathlib import Path

import pytest

from flows.services.files.os_errors import config_settings
from pipeline.errors import ConfigError, InputError
from pipeline.ingest import ingest
from pipeline.publish import load_manifest
from pipeline.settings import IngestSettings, SiteSettings

BAD_SETTINGS = (
    "[scaling]\ncounts = [1e300]", "[checks.newest_job]\nthreshold = 1e300", "[site]\nmax_procs = true",
    "[site]\nname = 'a/../../b'", '[site]\nname = "a\\nb"', '[site]\nname = "a\\u0000b"', "[site]\nname = '..'",
    "[ingest]\nmax_damaged = 'yes'", "[ingest]\nday_first = 1", "[limits]\npromise = 1.5", "x = " + "[" * 100_000,
    "[predict]\nreach = 1e300", "[site]\nprice_per_proc_hour = nan",
)  # fmt: skip


@pytest.mark.parametrize("text", BAD_SETTINGS, ids=lambda text: text[:40])
def test_a_setting_out_of_range_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "site.toml").write_text(text + "\n")
    with pytest.raises(ConfigError, match=r"site\.toml: found .*, expected") as caught:
        config_settings(tmp_path / "site.toml")
    assert str(caught.value).isprintable()


def test_a_manifest_of_brackets_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match=r"nests too deep.*run again"):
        load_manifest(tmp_path)


HEADER = "JobID|User|JobName|Submit|Start|End|State|NCPUS|Elapsed|AllocTRES\n"


def sacct(job: int, tres: str = "cpu=4") -> str:
    return f"{job}|u7|relax|2023-11-15T10:10:00|2023-11-15T10:11:00|2023-11-15T10:21:00|COMPLETED|4|00:10:00|{tres}\n"


def read(path: Path, data: bytes) -> list[object]:
    path.write_bytes(data)
    jobs, unreadable, _ = ingest([path], SiteSettings(name="here"), IngestSettings())
    assert not unreadable.num_rows
    return jobs.column("gpus").to_pylist()


@pytest.mark.parametrize("count", ["-1", "2x", "1K", "99999999999", ""])
def test_a_count_of_gpus_that_is_no_number_is_unknown(tmp_path: Path, count: str) -> None:
    text = HEADER + sacct(1, f"cpu=4,gres/gpu={count},mem=1G") + sacct(2, "cpu=4,gres/gpu=2") + sacct(3)
    assert read(tmp_path / "dump", text.encode()) == [None, 2, 0]


def test_commas_and_packed_members_are_read(tmp_path: Path) -> None:
    text = HEADER + sacct(1) + sacct(2)
    assert read(tmp_path / "comma", text.replace("|", ",").encode()) == [0, 0]
    packed = gzip.compress(text.encode()) + gzip.compress(sacct(3).encode()) + bytes(512)
    assert read(tmp_path / "packed", packed) == [0, 0, 0]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ((HEADER + sacct(1)).replace("\n", "\r").encode(), r"carriage return alone.*tr '\\r' '\\n'"),
        (gzip.compress((HEADER + sacct(1)).encode()) + b"rubbish!", r"compressed data that is damaged.*copy or export"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(tmp_path: Path, data: bytes, found: str) -> None:
    with pytest.raises(InputError, match=found):
        read(tmp_path / "dump", data)
