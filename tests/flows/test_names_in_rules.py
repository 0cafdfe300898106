"""Where a site anonymises, names in its rules are hashed: they match the hashed jobs, and no file has them."""

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.ingest.privacy import Hasher, hasher_of, with_hashed_names
from pipeline.publish import load_manifest
from pipeline.settings import parse_settings
from tests.flows.support import Outcome

Walltime = Callable[..., Outcome]
NAMES = "JobID|User|Account|JobName|State|Submit|Start|End|ElapsedRaw|TimelimitRaw|AllocCPUS|Partition"
SECRET, ACCOUNT, PROGRAM = "zzsecret3", "zzaccount7", "zzsolver"
RULES = f"""
[[clean.drop]]
user = "{SECRET}"
reason = "trials of {SECRET}"
[[clean.keep]]
account = "{ACCOUNT}"
reason = "paid by {ACCOUNT}"
[[clean.drop]]
application = "{PROGRAM}"
until = 2020-01-01
reason = "t"
[export]
opt_in = ["{SECRET}", "{ACCOUNT}"]
[export.opt_out]
users = ["{SECRET}"]
accounts = ["{ACCOUNT}"]
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A config with a key and rules, and its log of 40 jobs: every fourth is of the user that a rule drops."""
    rows = [
        f"{n}|{SECRET if n % 4 == 0 else 'bob'}|{'phys' if n % 4 == 0 else ACCOUNT}|{PROGRAM}|COMPLETED|"
        f"2026-01-{1 + n % 20:02}T0{n % 9}:00:00|2026-01-{1 + n % 20:02}T0{n % 9}:01:00|"
        f"2026-01-{1 + n % 20:02}T0{n % 9}:31:00|1800|60|4|long"
        for n in range(1, 41)
    ]
    (tmp_path / "dump.txt").write_text("\n".join([NAMES, *rows, ""]))
    key = tmp_path / "walltime.key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    config = tmp_path / "site.toml"
    config.write_text(
        f"logs = ['dump.txt']\noutput_dir = '{tmp_path / 'out'}'\n[site]\nname = 'oxbow'\nanonymise = true\n"
        f"key_file = '{key}'\n{RULES}"
    )
    return config


def dropped(jobs: Path) -> int:
    return pq.read_table(jobs)["flag"].to_pylist().count("site_drop")


def test_a_rule_matches_hashed_jobs_and_no_file_has_its_name(walltime: Walltime, site: Path, tmp_path: Path) -> None:
    done = walltime("run", site, "--plain")
    assert (done.code, done.err) == (0, "") or SECRET not in done.err
    out = tmp_path / "out"
    assert dropped(load_manifest(out).path("jobs")) == 10
    files = [path for path in out.rglob("*") if path.is_file()]
    assert len(files) > 20
    for path in files:
        content = path.read_bytes()
        assert not [name for name in (SECRET, ACCOUNT, PROGRAM) if name.encode() in content], path
    assert SECRET not in done.out


def test_clean_hashes_the_names_too(walltime: Walltime, site: Path, tmp_path: Path) -> None:
    ingested, cleaned = tmp_path / "jobs.parquet", tmp_path / "cleaned.parquet"
    assert walltime("ingest", tmp_path / "dump.txt", "--config", site, "--out", ingested).code == 0
    assert walltime("clean", ingested, "--config", site, "--out", cleaned).code == 0
    assert dropped(cleaned) == 10


def test_hashes_in_rules_and_the_application_of_a_site_s_rule_stay(site: Path) -> None:
    from flows.services.files.os_errors import config_settings

    settings = with_hashed_names(config_settings(site))
    assert with_hashed_names(settings) == settings
    assert settings.clean.drop[0].user == hasher_of(settings.site).of("user", SECRET) != Hasher().of("user", SECRET)
    named = {"ingest": {"application_rules": [{"find": "x", "gives": PROGRAM}]}}
    kept = parse_settings(config_settings(site).model_dump() | named, "t")
    assert with_hashed_names(kept).clean.drop[1].application == PROGRAM
    plain = kept.model_copy(update={"site": kept.site.model_copy(update={"anonymise": False})})
    assert with_hashed_names(plain) is plain
