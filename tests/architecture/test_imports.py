"""Who may import whom: the rules hold, and they would catch a breach."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the checkout in `folder`, whichever one is installed."""
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-logo", "--no-cache"], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("walltime", "pipeline", "flows"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_rules_hold(checkout: Path) -> None:
    checked = lint(checkout)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("pipeline/scaling/predictions.py", "from pipeline.group.grouping import assign_groups"),
        ("pipeline/clean/stage.py", "import pipeline.group.grouping"),
        ("pipeline/publish/versions.py", "import pipeline.run"),
        ("pipeline/errors.py", "import pipeline.laws"),
        ("pipeline/laws.py", "import pipeline.scaling.fit"),
        ("pipeline/run.py", "import flows.services.run.running"),
        ("pipeline/run.py", "import prefect"),
        ("pipeline/group/observations.py", "from rich import print"),
        ("pipeline/ingest/formats/pbs/fold.py", "import pipeline.ingest.formats.sacct.records"),
        ("pipeline/ingest/values.py", "import pipeline.ingest.formats.swf"),
        ("pipeline/ingest/records.py", "import pipeline.ingest.formats.swf"),
        ("flows/services/job_answers.py", "from rich import print"),
        ("flows/services/run/running.py", "import flows.prefect.nightly"),
        ("flows/services/published/browse.py", "import flows.pages.terminal"),
        ("flows/pages/terminal.py", "import typer"),
        ("flows/pages/markdown.py", "import flows.cli.options"),
        ("flows/cli/commands/run.py", "import prefect"),
        ("flows/services/job_answers.py", "import walltime.frames"),
        ("pipeline/run.py", "import walltime"),
        ("walltime/frames.py", "import flows.pages.markdown"),
        ("walltime/jobs.py", "from flows.prefect import nightly"),
    ],
)
def test_a_breach_would_be_caught(checkout: Path, file: str, line: str) -> None:
    path = checkout / file
    path.write_text(f"{path.read_text()}\n\ndef _breach() -> None:\n    {line}\n")
    checked = lint(checkout)
    assert checked.returncode != 0
    assert "BROKEN" in checked.stdout


def test_every_room_stands_in_the_layers() -> None:
    rules = (ROOT / "pyproject.toml").read_text()
    rooms = {path.parent.name for path in (ROOT / "pipeline").glob("*/__init__.py")}
    assert [room for room in rooms if f"pipeline.{room}" not in rules] == []


@pytest.mark.parametrize("package", ["prefect", "typer", "rich"])
def test_the_library_never_names_what_belongs_to_flows(package: str) -> None:
    texts = {path: path.read_text() for path in (ROOT / "pipeline").rglob("*.py")}
    assert [str(path) for path, text in texts.items() if f"import {package}" in text or f"from {package}" in text] == []
