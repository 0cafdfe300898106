"""Where a site anonymises, no name reaches a file, a message or a spill file, and hashes are the same every day."""

import json
import os
from itertools import permutations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.errors import ConfigError, InputError
from pipeline.ingest import OnDisk, ingest, records
from pipeline.ingest.derive import PERSONAL
from pipeline.ingest.privacy import Hasher, hasher_of
from pipeline.ingest.records import Records
from pipeline.settings import IngestSettings, SiteSettings, TextRule
from pipeline.storage import read_table
from pipeline.tables import JOBS, UNREADABLE

NAMES = ("adalovelace", "engineers", "proj-moon", "secretname", "hushdir", "whisper")
HEADER = (
    "JobID|User|Group|Account|JobName|State|Submit|Start|End|Elapsed|Timelimit|AllocCPUS|NNodes|WorkDir|Comment|"
    "SubmitLine"
)
ROW = (
    "{id}|adalovelace|engineers|proj-moon|secretname_{id}|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|"
    "2026-01-01T00:11:00|00:10:00|01:00:00|4|1|/home/hushdir/{id}|whisper n=64|sbatch --wrap secretname hushdir"
)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "walltime.key"
    path.write_text("0123456789abcdef0123456789abcdef\n")
    path.chmod(0o600)
    return path


PLAIN = {
    "site", "cluster", "job_id", "queue", "partition", "qos", "problem_size", "gpu_type", "limit_set_by",
    "requested_memory", "state", "array_id", "het_id", "preceding_job_id", "source_file", "flag", "burst_id",
    "group_id",
}  # fmt: skip
MADE_WITHOUT_NAMES = {"application", "submit_tokens", "inputs", "work_dir_hash"}


def test_each_text_of_a_job_is_hashed_or_listed_as_naming_nobody() -> None:
    texts = {one.name for one in JOBS.columns if pa.types.is_dictionary(one.type) or one.type == pa.string()}
    assert texts == PLAIN | MADE_WITHOUT_NAMES | set(PERSONAL)


def dump(folder: Path, n: int = 40) -> Path:
    log = folder / "dump.txt"
    odd = "9|adalovelace|engineers|secretname|torn hushdir whisper\n"
    log.write_text(HEADER + "\n" + "".join(ROW.format(id=i) + "\n" for i in range(1, n)) + odd)
    return log


def held_names(data: bytes) -> list[str]:
    return [name for name in NAMES if name.encode() in data]


def test_nothing_raw_reaches_the_disk_or_a_message(
    tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = dump(tmp_path)
    assert held_names(log.read_bytes()) == list(NAMES)
    site = SiteSettings(name="here", anonymise=True, key_file=str(key))
    rules = (TextRule(text="comment", find=r"n=(\d+)"),)
    settings = IngestSettings(problem_size_rules=rules, keep_submit_line=True)
    out, beside = tmp_path / "o.parquet", tmp_path / "o.unreadable.parquet"
    spilled = []
    stored = Records._reader

    def noted(self: Records, kind: str) -> pa.RecordBatchReader:
        rows = stored(self, kind)
        assert self.folder is not None
        spilled.append((self.folder / f"{kind}.arrow").read_bytes())
        return rows

    monkeypatch.setattr(Records, "_reader", noted)
    monkeypatch.setattr(records, "_PACKED", pa.ipc.IpcWriteOptions())
    to = OnDisk(out, beside, hold_bytes=0)
    *_, report = ingest([log], site, settings, to=to)
    jobs, unreadable = read_table(out, JOBS), read_table(beside, UNREADABLE)
    assert spilled and jobs.num_rows == 39 and unreadable.num_rows == 1
    plain = pa.concat_tables([jobs]).to_pylist() + unreadable.to_pylist()
    shown = [json.dumps(report.as_dict()).encode(), repr(plain).encode(), *spilled]
    captured = capsys.readouterr()
    assert (
        held_names(
            b"".join([*shown, out.read_bytes(), beside.read_bytes(), captured.out.encode(), captured.err.encode()])
        )
        == []
    )
    first = jobs.to_pylist()[0]
    assert first["problem_size"] == "64" and first["submit_tokens"] is None
    for name in ("user", "user_group", "account", "job_name", "application", "work_dir_hash"):
        assert len(first[name]) == 16 and int(first[name], 16) >= 0
    assert len(set(jobs["application"].to_pylist())) == 1 and len(set(jobs["job_name"].to_pylist())) == 39
    assert unreadable["raw"].to_pylist()[0].startswith("(")


def test_groups_stay_what_they_are_and_another_key_gives_other_hashes(tmp_path: Path, key: Path) -> None:
    log = dump(tmp_path)
    other = tmp_path / "other.key"
    other.write_text("another key of more than 16 bytes")
    other.chmod(0o600)

    def users(path: Path) -> list[Any]:
        jobs, _, _ = ingest([log], SiteSettings(anonymise=True, key_file=str(path)), IngestSettings())
        return jobs["user"].to_pylist()

    assert users(key) == users(key) != users(other)
    hasher = hasher_of(SiteSettings(anonymise=True, key_file=str(key)))
    assert hasher.of("user", "bob") != hasher.of("account", "bob")


@pytest.mark.parametrize("secret", [b"", b"short key", bytes(range(64))])
def test_many_texts_hashed_at_once_are_each_hashed_alone(secret: bytes) -> None:
    hasher = Hasher(secret)
    words = ["", "a", "größe", *("x" * n for n in (7, 8, 127, 128, 129, 255, 256, 257, 1000)), "a"]
    for text in (pa.array([*words, None]), pa.array([None, "cut off", *words])[2:]):
        hashed = hasher.column("work_dir", text)
        assert hashed.to_pylist() == [w if w is None else hasher.of("work_dir", w) for w in text.to_pylist()]
    assert hasher.column("user", pa.array([], pa.string())).to_pylist() == []


def test_a_site_s_own_rule_gives_an_application_a_name_to_keep(tmp_path: Path, key: Path) -> None:
    settings = IngestSettings(application_rules=(TextRule(find="secret", gives="solver"),))
    jobs, _, _ = ingest([dump(tmp_path)], SiteSettings(anonymise=True, key_file=str(key)), settings)
    assert set(jobs["application"].to_pylist()) == {"solver"}


def test_errors_do_not_quote_the_log(tmp_path: Path, key: Path) -> None:
    site = SiteSettings(anonymise=True, key_file=str(key))
    log = tmp_path / "x.txt"
    log.write_text("adalovelace secretname whisper\n" * 300)
    for form in ("auto", "swf", "pbs", "sacct", "sacct_json"):
        with pytest.raises(InputError) as raised:
            ingest([log], site, IngestSettings(format=form))
        assert held_names(str(raised.value).encode()) == [], form


def test_the_folder_is_a_hash_also_without_a_key(tmp_path: Path) -> None:
    jobs, _, _ = ingest([dump(tmp_path)], SiteSettings(), IngestSettings())
    assert len(set(jobs["work_dir_hash"].to_pylist())) == 39 and "hushdir" not in str(jobs["work_dir_hash"].to_pylist())
    assert set(jobs["user"].to_pylist()) == {"adalovelace"}


@pytest.mark.parametrize(
    ("mode", "text", "found"),
    [
        (0o644, "x" * 32, "mode 644"),
        (0o620, "x" * 32, "mode 620"),
        (0o600, "", "0 bytes"),
        (0o600, " short \n", "5 bytes"),
    ],
)
def test_a_key_file_that_will_not_do(tmp_path: Path, mode: int, text: str, found: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ConfigError, match=found) as raised:
        hasher_of(SiteSettings(anonymise=True, key_file=str(path)))
    assert "xxxx" not in str(raised.value)


def test_a_missing_key_file(tmp_path: Path) -> None:
    for key_file in (None, str(tmp_path / "none"), os.fspath(tmp_path)):
        with pytest.raises(ConfigError, match=r"site\.key_file"):
            hasher_of(SiteSettings(anonymise=True, key_file=key_file))


def test_a_table_is_updated_only_under_the_key_it_was_made_with(tmp_path: Path, key: Path) -> None:
    log, out = dump(tmp_path), tmp_path / "o.parquet"
    other = tmp_path / "other.key"
    other.write_text("another key of more than 16 bytes")
    other.chmod(0o600)
    sites = [SiteSettings(), *(SiteSettings(anonymise=True, key_file=str(path)) for path in (key, other))]

    def write(site: SiteSettings, earlier: Path | None) -> None:
        to = OnDisk(out, tmp_path / "bad.parquet")
        ingest([log], site, IngestSettings(), earlier, to=to)

    for made, now in permutations(sites, 2):
        write(made, None)
        before = out.read_bytes()
        with pytest.raises(InputError, match=r"names (hashed under|as the logs)"):
            write(now, out)
        assert out.read_bytes() == before
        write(made, out)
