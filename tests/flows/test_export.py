"""`walltime export`: the published estimates as files, which answer as the tables do."""

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.services.run.running import run_and_publish
from pipeline.estimate.history import history
from pipeline.export.lookup_reader import Lookup
from pipeline.export.lua import lua
from pipeline.publish import load_manifest
from pipeline.storage import read_table
from pipeline.tables import ESTIMATES, JOBS
from tests.flows.fake_programs import Scontrol
from tests.flows.support import SAMPLES, Outcome
from tests.table_lookup import look_up, published_rows
from tests.unit.export.lua_runner import INTERPRETERS, MISSING, run_lua, with_locals
from tests.unit.export.slurm_plugin import found_in, job_at

Walltime = Callable[..., Outcome]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    text = f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{folder / 'out'}'\n[site]\nname = 'oxbow'\n"
    (folder / "site.toml").write_text(text + "[export]\nmode = 'limit'\n")
    run_and_publish(str(folder / "site.toml"))
    return folder / "out"


def test_slurm_gets_a_look_up_a_plug_in_and_words(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    done = walltime("export", "--for", "slurm", tmp_path / "new" / "slurm", "--from", published)
    assert done.code == 0, done.err
    files = {path.name: path.read_bytes() for path in (tmp_path / "new" / "slurm").iterdir()}
    assert set(files) == {"walltime.lookup", "job_submit.lua", "INSTALL.txt"}
    assert b'["mode"] = "limit"' in files["job_submit.lua"]
    assert "JobSubmitPlugins=lua" in done.out
    lookup = Lookup(io.BytesIO(files["walltime.lookup"]))
    manifest = json.loads((published / "manifest.json").read_text())
    assert (lookup.facts["run"], lookup.facts["site"]) == (manifest["run_id"], "oxbow")
    estimates = pq.read_table(published / manifest["tables"]["estimates"]["path"]).to_pylist()
    assert int(lookup.facts["rows"]) == len(estimates)
    for row in estimates[:: len(estimates) // 40]:
        job = {name: row[name] for name in ("who", "what", "queue", "requested_s", "procs")}
        job |= {"gpus": row["gpus"] or 0, "gpu_type": row["gpu_type"] or ""}
        found = found_in(lookup, job)
        assert found is not None and found.template == row["template"]


@pytest.mark.skipif(not INTERPRETERS, reason=MISSING)
def test_lua_answers_submits_of_the_sample_as_method_table_does(
    walltime: Walltime, published: Path, tmp_path: Path
) -> None:
    assert walltime("export", "--for", "slurm", tmp_path, "--from", published).code == 0
    manifest = load_manifest(published)
    log = history(read_table(manifest.path("jobs"), JOBS))
    asked = log.take(np.sort(np.random.default_rng(2).choice(len(log), min(len(log), 400), replace=False)))
    asked.procs[::3] = 77.0
    asked.requested_s[::5] = 123.0
    table = read_table(manifest.path("estimates"), ESTIMATES)
    rows = published_rows(table)
    # Beside slurm.conf, as on a cluster.
    script = f"os.getenv = function() return {lua(str(tmp_path / 'slurm.conf'))} end\n"
    script += with_locals((tmp_path / "job_submit.lua").read_text(), ("find", "with_lookup"))
    script += f"for _, job in ipairs({lua([job_at(asked, place) for place in range(len(asked))])}) do\n"
    script += "local found = with_lookup(function(file, facts) return find(file, facts, job) end)\n"
    script += "for n = 1, 6 do io.write(('%.17g '):format(found.quantiles[n])) end print('') end"
    found = np.array([line.split() for line in run_lua(INTERPRETERS[0], script, tmp_path)], np.float64)
    assert np.allclose(found, look_up(rows, asked), rtol=1e-6, atol=0)


def test_a_config_has_precedence_over_the_settings_of_the_run(
    walltime: Walltime, published: Path, tmp_path: Path
) -> None:
    config = tmp_path / "other.toml"
    config.write_text("logs = ['x']\n[export]\nmode = 'limit'\nopt_out = {users = ['e\"vil']}\n")
    done = walltime("export", "--for", "slurm", tmp_path, "--from", published, "--config", config, "--json")
    assert json.loads(done.out)["n_estimates"] > 0
    text = (tmp_path / "job_submit.lua").read_text()
    assert '["mode"] = "limit"' in text and '["e\\034vil"] = true' in text


def test_the_plug_in_has_the_margin_and_the_folder_of_the_slurm_that_is_there(
    walltime: Walltime, published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    scontrol = Scontrol(tmp_path)
    for line, margin in (("OverTimeLimit           = 15 min", 180), ("OverTimeLimit           = 14 min", 900)):
        scontrol.shows(line)
        assert walltime("export", "--for", "slurm", tmp_path / "out", "--from", published).code == 0
        assert f'["margin_s"] = {margin},' in (tmp_path / "out" / "job_submit.lua").read_text()
        assert f"{tmp_path}/job_submit.lua" in (tmp_path / "out" / "INSTALL.txt").read_text()


def test_openpbs_gets_a_look_up_a_hook_and_commands(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    done = walltime("export", "--for", "pbs", tmp_path, "--from", published)
    assert done.code == 0, done.err
    names = {"walltime.lookup", "walltime_hook.py", "walltime_hook.json", "walltime_hook.qmgr", "INSTALL.txt"}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert "qmgr < walltime_hook.qmgr" in done.out
    assert json.loads((tmp_path / "walltime_hook.json").read_text())["max_age_s"] == 7 * 86_400


def test_csv_is_the_table(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    assert walltime("export", "--for", "csv", tmp_path, "--from", published).code == 0
    lines = (tmp_path / "walltime.csv").read_bytes().count(b"\r\n")
    manifest = json.loads((published / "manifest.json").read_text())
    assert lines == manifest["tables"]["estimates"]["rows"] + 1


def test_a_damaged_table_is_not_exported(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    """One flipped bit of a table that has the right length: one sentence, and nothing is written."""
    copied = tmp_path / "out"
    shutil.copytree(published, copied)
    path = load_manifest(copied).path("estimates")
    whole = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    for scheduler in ("slurm", "pbs", "csv"):
        done = walltime("export", "--for", scheduler, tmp_path / "files", "--from", copied)
        assert done.code != 0 and "SHA-256" in done.err and done.err.count("\n") == 1
    assert not (tmp_path / "files").exists()


def test_what_cannot_be_exported_is_one_sentence(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments in (
        ("--for", "slurm", tmp_path, "--from", tmp_path / "nothing"),
        ("--for", "slurm", tmp_path / "file" / "x", "--from", published),
        ("--for", "slurm", tmp_path, "--from", published, "--config", tmp_path / "none.toml"),
        ("--for", "loadleveler", tmp_path, "--from", published),
        (tmp_path, "--from", published),
    ):
        done = walltime("export", *arguments)
        assert done.code != 0 and "Traceback" not in done.err, arguments
