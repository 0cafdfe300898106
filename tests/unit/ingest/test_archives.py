"""A tar or zip of logs is read as its members."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest import ingest
from pipeline.report import Report
from pipeline.settings import IngestSettings, SiteSettings
from tests.unit.ingest.test_rare_damage import HEADER, ended, row

DAYS = {f"d/2026030{day}": "".join(ended(10 * day + number) for number in range(4)).encode() for day in (3, 1, 2)}
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def tar(members: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    """A tar with these members, and then some entries without bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
        for info in special:
            file.addfile(info)
    return out.getvalue()


def zipped(members: dict[str, bytes]) -> bytes:
    """A zip with these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return out.getvalue()


def read(path: Path, data: bytes) -> tuple[list[dict[str, object]], Report]:
    """The jobs and the report of a file with these bytes."""
    path.write_bytes(data)
    jobs, _, report = ingest([path], SiteSettings(name="s"), IngestSettings())
    return jobs.to_pylist(), report


@pytest.mark.parametrize("inner", PACK)
@pytest.mark.parametrize("outer", [*PACK, "zip"])
def test_an_archive_is_read_as_its_members(tmp_path: Path, outer: str, inner: str) -> None:
    members = {name: PACK[inner](data) for name, data in DAYS.items()}
    data = zipped(members) if outer == "zip" else PACK[outer](tar(members))
    jobs, report = read(tmp_path / "days", data)
    places = {(job["source_file"], job["source_line"]) for job in jobs}
    assert places == {(f"days:{name}", line) for name in DAYS for line in range(1, 5)}
    assert report.seen.rows == len(jobs) == 12 and report.facts["files"] == 3


def test_each_member_has_its_own_format_and_others_are_passed_over_with_a_sentence(tmp_path: Path) -> None:
    dump = "\n".join([HEADER, row(901), row(902)]).encode() + b"\n"
    other = {
        "README": b"no log\n",
        ".hidden": b"x",
        "in.tar": tar(DAYS),
        "in.zip": zipped(DAYS),
        "t.parquet": b"PAR1 x",
    }
    link = tarfile.TarInfo("latest")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    jobs, report = read(
        tmp_path / "days.tar", tar(DAYS | {"dump.txt": dump, "../up": dump, "/etc/x": dump} | other, link)
    )
    assert len(jobs) == 14 and report.facts["format"] == "pbs+sacct"
    said = "\n".join(report.notes)
    for name in ("README", "in.tar", "in.zip", "t.parquet", "../up", "/etc/x", "latest"):
        assert f"days.tar:{name} is " in said
    assert ".hidden" not in said and not list(tmp_path.glob("*/*"))


def test_members_larger_than_what_is_kept_of_a_tar_are_whole(tmp_path: Path) -> None:
    many = {f"{day}": "".join(ended(10_000 * day + number) for number in range(4_000)).encode() for day in (1, 2)}
    assert all(len(data) > 1 << 20 for data in many.values())
    assert len(read(tmp_path / "days.tar", tar(many))[0]) == 8_000


@pytest.mark.parametrize("cut", [600, 2_100, 3_000])
@pytest.mark.parametrize("pack", ["", ".xz"])
def test_an_archive_that_is_cut_off_is_an_error(tmp_path: Path, cut: int, pack: str) -> None:
    with pytest.raises(InputError, match="days"):
        read(tmp_path / "days", PACK[pack](tar(DAYS)[:cut]))


@pytest.mark.parametrize("at", [156, 2_700])
def test_a_damaged_header_is_an_error_and_loses_no_member_in_silence(tmp_path: Path, at: int) -> None:
    data = bytearray(tar(DAYS))
    second = 512 + -(-len(DAYS["d/20260303"]) // 512) * 512
    data[second + at % 512] ^= 0xFF
    with pytest.raises(InputError, match="header"):
        read(tmp_path / "days", bytes(data))


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    data = bz2.compress(tar({"zeros": bytes(100 << 20)}))
    assert len(data) < 10_000
    with pytest.raises(InputError, match="an archive of more than"):
        read(tmp_path / "days.tbz", data)


def test_an_archive_without_a_log_is_an_error(tmp_path: Path) -> None:
    for number, data in enumerate((tar({}), tar({"a": b"no log\n"}), zipped({}), zipped({"a": b"no log\n"}))):
        with pytest.raises(InputError):
            read(tmp_path / str(number), data)
