"""Commands that read a published version keep it on disk until they have read it, whatever is published meanwhile."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.cli.commands.scheduler import export
from flows.services.doctor import check_published
from flows.services.guard import Watch
from pipeline.publish import Manifest, Retention, load_manifest
from pipeline.settings import parse_settings
from pipeline.storage import write_table
from pipeline.tables import STATE
from tests.publishing import publish
from tests.unit.publish.versions_of_tables import NEWEST_S, run_facts, staged


def publish_run(folder: Path, run_id: str) -> Path:
    """Publish all tables that the commands read; versions published before go, unless a reader holds them."""
    files = staged(folder / "staged") | {"state": write_table(folder / "staged/state.parquet", STATE.empty(), STATE)}
    out = folder / "out"
    publish(files, [], run_facts(run_id), output_dir=out, created_s=NEWEST_S, retention=Retention(newest=1))
    return out


def watched(out: Path) -> None:
    settings = parse_settings({"source": {"kind": "folder", "folder": "logs"}, "output_dir": str(out)}, "test")
    Watch(settings, Path("site.toml"), "slurm", {}).run_round(NEWEST_S)


COMMANDS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "export": (
        "published.published_folder.read_columns",
        lambda out: export(out.parent / "exported", "csv", out, None),
    ),
    "watch": ("guard.read_table", watched),
    "check": ("doctor.checks.check_night", lambda out: check_published(out, NEWEST_S)),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_version_stays_while_a_command_reads_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = publish_run(tmp_path, "r1")
    first = load_manifest(out)
    reads, call = COMMANDS[command]
    there: list[bool] = []

    def overtaken(*_: object) -> Manifest:
        publish_run(tmp_path, "r2")
        there.extend(first.path(name).exists() for name in first.tables)
        raise RuntimeError

    monkeypatch.setattr(f"flows.services.{reads}", overtaken)
    with pytest.raises(RuntimeError):
        call(out)
    assert len(there) == len(first.tables) and all(there)
    publish_run(tmp_path, "r3")
    assert not (out / "versions" / first.folder).exists()
