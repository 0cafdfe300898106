"""`walltime export`: the published estimates as files, which answer as the tables do."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from flows.services.run.plain_run import run_and_publish
from pipeline.export.lookup_reader import open_lookup
from tests.flows.support import SAMPLES, Outcome

Walltime = Callable[..., Outcome]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    text = f"logs = ['{SAMPLES / 'traps.swf'}']\noutput_dir = '{folder / 'out'}'\n[site]\nname = 'oxbow'\n"
    (folder / "site.toml").write_text(text + "[export]\nmode = 'priority'\n")
    run_and_publish(str(folder / "site.toml"))
    return folder / "out"


def test_slurm_gets_a_look_up_a_plug_in_and_words(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    done = walltime("export", "--for", "slurm", tmp_path / "new" / "slurm", "--from", published)
    assert done.code == 0, done.err
    files = {path.name: path.read_bytes() for path in (tmp_path / "new" / "slurm").iterdir()}
    assert set(files) == {"walltime.lookup", "job_submit.lua", "INSTALL.txt"}
    assert b'["mode"] = "priority"' in files["job_submit.lua"]
    assert "JobSubmitPlugins=lua" in done.out
    lookup = open_lookup(io.BytesIO(files["walltime.lookup"]))
    manifest = json.loads((published / "manifest.json").read_text())
    assert (lookup.stamp.run, lookup.stamp.site) == (manifest["run_id"], "oxbow")
    estimates = pq.read_table(published / manifest["tables"]["estimates"]["path"]).to_pylist()
    assert lookup.stamp.rows == len(estimates)
    for row in estimates[:: len(estimates) // 40]:
        job = {name: row[name] for name in ("who", "what", "queue", "requested_s", "procs")}
        found = lookup.find(job)
        assert found is not None and found.template == row["template"]


def test_a_config_has_precedence_over_the_settings_of_the_run(
    walltime: Walltime, published: Path, tmp_path: Path
) -> None:
    config = tmp_path / "other.toml"
    config.write_text("logs = ['x']\n[export]\nmode = 'limit'\nopt_out_users = ['e\"vil']\n")
    done = walltime("export", "--for", "slurm", tmp_path, "--from", published, "--config", config, "--json")
    assert json.loads(done.out)["n_estimates"] > 0
    text = (tmp_path / "job_submit.lua").read_text()
    assert '["mode"] = "limit"' in text and '["e\\034vil"] = true' in text


def test_csv_is_the_table(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    assert walltime("export", "--for", "csv", tmp_path, "--from", published).code == 0
    lines = (tmp_path / "walltime.csv").read_bytes().count(b"\r\n")
    manifest = json.loads((published / "manifest.json").read_text())
    assert lines == manifest["tables"]["estimates"]["rows"] + 1


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
