"""`walltime init` finds what the machine has, and writes a config that `walltime run` accepts; nothing is replaced."""

import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.services.initialising import initialise, look, slurm_environment, unit_word, write_units
from flows.services.logs import resolve, run_settings
from flows.services.run.running import prepare_run
from pipeline.errors import InputError
from pipeline.publish import load_manifest
from pipeline.settings import RunSettings, parse_settings
from tests.flows.fake_programs import Program, Sacct, job
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]
TRAPS = SAMPLES / "traps.swf"


def machine_of(root: Path, zone: str = "Europe/Oslo") -> Path:
    (root / "etc").mkdir(parents=True)
    (root / "etc/timezone").write_text(f"{zone}\n")
    return root


def environment_of(*folders: Path) -> dict[str, str]:
    return {"PATH": ":".join(map(str, (*folders, "/nonexistent")))}


def test_the_config_of_a_log_runs_and_is_not_replaced(walltime: Walltime, tmp_path: Path) -> None:
    config = tmp_path / "my site.toml"
    shown = walltime("init", "--out", config, "--log", TRAPS, "--site", 'ox"bow')
    assert shown.code == 0 and "is of the format swf, with 94 jobs" in shown.out
    assert walltime("run", config, "--plain", "--quiet") == Outcome(0, "", "")
    assert load_manifest(tmp_path / "my site-tables").site == 'ox"bow'
    before = config.read_bytes()
    again = walltime("init", "--out", config, "--log", TRAPS)
    assert again.code == 2 and again.err.count("\n") == 1 and "a file that exists" in again.err
    assert config.read_bytes() == before


def test_the_sample_needs_no_checkout(walltime: Walltime, tmp_path: Path) -> None:
    shown = walltime("init", "--sample", "--out", tmp_path / "a.toml")
    assert shown.code == 0 and "riverbend.swf.gz is of the format swf" in shown.out
    assert run_settings(tmp_path / "a.toml").site.name == "riverbend"
    refused = walltime("init", "--sample", "--log", TRAPS, "--out", tmp_path / "b.toml")
    assert refused.code == 2 and "one of the two" in refused.err


def test_sacct_is_found_and_named_by_its_cluster(tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    Program(bin_folder, "sacct", "")
    Program(bin_folder, "scontrol", "print('ClusterName             = fjord\\nSlurmctldPort = 6817')")
    Program(
        bin_folder, "sinfo",
        "print('n1|long|idle|24|8:00:00|7-00:00:00|(null)|1\\nn1|fast|idle|24|1:00|1:00|(null)|1\\n"
        "n2|long|mixed|24|8:00:00|7-00:00:00|(null)|1\\ng1|gpu|idle|64|1:00:00|1-00:00:00|gpu:a100:4|1')",
    )  # fmt: skip
    initialise(tmp_path / "a.toml", None, None, environment_of(bin_folder), machine_of(tmp_path / "root"))
    settings = run_settings(tmp_path / "a.toml")
    assert (settings.source.kind, settings.source.since) == ("sacct", "90d")
    assert (settings.site.name, settings.site.timezone) == ("fjord", "Europe/Oslo")
    assert settings.checks.newest_job.mode == "warn"
    # A node in two partitions counts once; most nodes say how large a node is.
    assert (settings.site.max_procs, settings.site.procs_per_node) == (112, 24)
    told = (tmp_path / "a.toml").read_text()
    assert "# Found here: partition long: default limit 8:00:00, at most 7-00:00:00." in told
    assert "# Found here: partition gpu: default limit 1:00:00, at most 1-00:00:00, gpu:a100:4." in told


def test_the_config_of_sacct_is_what_a_run_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    Program(tmp_path / "bin", "sacct", "")
    initialise(tmp_path / "a.toml", None, "oxbow", environment_of(tmp_path / "bin"), tmp_path)
    Sacct(tmp_path / "bin", [job(n) for n in range(8)])
    text = (tmp_path / "a.toml").read_text()
    (tmp_path / "a.toml").write_text(text.replace('since = "90d"', 'since = "2026-01-01"'))
    run = prepare_run(*resolve(tmp_path / "a.toml"))
    assert [Path(label).suffix for label in run.log_labels] == [".parquet"]
    assert Path(run.settings.output_dir) == tmp_path / "a-tables"


def test_a_silent_sacct_gives_way_to_the_accounting_folder(tmp_path: Path) -> None:
    Program(tmp_path / "bin", "sacct", "sys.exit('sacct: error: accounting storage is disabled')")
    root = machine_of(tmp_path / "root")
    folder = root / "var/spool/pbs/server_priv/accounting"
    folder.mkdir(parents=True)
    with pytest.raises(InputError, match=r"accounting storage is disabled.*give --log PATH"):
        look(None, environment_of(tmp_path / "bin"), root)
    for name in ("20260101", "20260102", "tmp"):
        shutil.copy(SAMPLES / "traps.swf", folder / name)
    initialise(tmp_path / "a.toml", None, "oxbow", environment_of(tmp_path / "bin"), root)
    run = prepare_run(*resolve(tmp_path / "a.toml"))
    assert [Path(label).name for label in run.log_labels] == ["20260101", "20260102"]
    assert "accounting storage is disabled" in (tmp_path / "a.toml").read_text()


def test_pbs_home_is_asked_first(tmp_path: Path) -> None:
    root = machine_of(tmp_path / "root")
    (root / "etc/pbs.conf").write_text(f"PBS_SERVER=head\nPBS_HOME={tmp_path / 'pbs'}\n")
    folder = tmp_path / "pbs/server_priv/accounting"
    folder.mkdir(parents=True)
    (folder / "20260101").touch()
    source = look(None, environment_of(), root).source
    assert f'folder = "{folder}"' in source and 'scheduler = "pbs"' in source


@pytest.mark.parametrize("log", ["none.swf", "notes.txt", "empty.swf"])
def test_a_log_that_cannot_be_read_is_one_sentence_and_no_config(walltime: Walltime, tmp_path: Path, log: str) -> None:
    (tmp_path / "notes.txt").write_text("bread\nmilk\n")
    (tmp_path / "empty.swf").touch()
    shown = walltime("init", "--out", tmp_path / "a.toml", "--log", tmp_path / log)
    assert shown.code == 2 and shown.err.count("\n") == 1 and shown.err.count(" expected ") == 1, shown.err
    assert not (tmp_path / "a.toml").exists()


def test_the_zone_is_the_machines(tmp_path: Path) -> None:
    root = machine_of(tmp_path / "root", "no zone")
    (root / "etc/localtime").symlink_to("/usr/share/zoneinfo/Europe/Helsinki")
    log = str(TRAPS)
    assert look(log, {}, root).timezone == "Europe/Helsinki"
    assert look(log, {"TZ": ":Asia/Tokyo"}, root).timezone == "Asia/Tokyo"
    assert look(log, {}, tmp_path).timezone == "UTC"


def test_units_are_written_once_and_systemd_reads_them(walltime: Walltime, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "units"
    assert walltime("init", "--out", config, "--systemd", folder, "--at", "03:10").code == 0
    units = sorted(folder.iterdir())
    names = ["oxbow-guard.service", "oxbow-serve.service", "oxbow.service", "oxbow.timer", "prefect.service"]
    assert [path.name for path in units] == [f"walltime-{name}" for name in names]
    assert "OnCalendar=*-*-* 03:10:00 UTC" in units[3].read_text()
    served = units[1].read_text()
    assert '"--cron" "10 3 * * *" "--timezone" "UTC"' in served
    assert all("Restart=always" in units[at].read_text() for at in (0, 1, 4))
    assert walltime("init", "--out", config, "--systemd", folder).code == 2
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze: the units are not verified")
    done = subprocess.run(["systemd-analyze", "verify", *units], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_units_words_mean_nothing_to_systemd(tmp_path: Path) -> None:
    assert unit_word('a b"c\\d$e%f') == '"a b\\"c\\\\d$$e%%f"'
    with pytest.raises(InputError):
        unit_word("a\nExecStart=b")
    for at in ("24:00", "3:10", "03:10:00", "*:0"):
        with pytest.raises(InputError, match="time of day"):
            write_units(RunSettings(), Path("/a.toml"), tmp_path / "units", at, {})
    assert not (tmp_path / "units").exists()


def test_a_service_finds_slurm_as_init_did(tmp_path: Path) -> None:
    sacct = tmp_path / "sacct_of_this_site"
    sacct.touch(mode=0o755)
    environment = {"PATH": str(tmp_path), "SLURM_CONF": "/opt/slurm $1/50%.conf"}
    found = slurm_environment(environment, sacct.name)
    assert found["PATH"].startswith(f"{tmp_path}:/usr/local/sbin:")
    plain = {"site": {"name": "a"}, "source": {"kind": "sacct"}, "ingest": {"sacct_command": sacct.name}}
    units = write_units(parse_settings(plain, "here"), Path("/a.toml"), tmp_path / "units", "02:15", environment)
    assert 'Environment="SLURM_CONF=/opt/slurm $1/50%%.conf"' in units[0].read_text().splitlines()
    assert slurm_environment({"PATH": str(tmp_path)}, "sh") == {}


def test_every_line_of_a_config_is_a_setting_or_a_comment(tmp_path: Path) -> None:
    initialise(tmp_path / "a.toml", str(TRAPS), 'tab \\ " [x]', {}, tmp_path)
    assert tomllib.loads((tmp_path / "a.toml").read_text())["site"]["name"] == 'tab \\ " [x]'
    with pytest.raises(InputError, match="cannot be shown"):
        initialise(tmp_path / "b.toml", str(TRAPS), "a\nb", {}, tmp_path)
