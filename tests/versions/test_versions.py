"""`make test-versions`: the sample under the oldest and under the newest packages that pyproject.toml allows.

Each set has an environment of its own, made one after the other. Constraints (constraints.txt) hold for both.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WALLTIME_TEST_VERSIONS"), reason="`make test-versions` installs packages"),
    pytest.mark.timeout(3_600),
]
ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def call(words: Sequence[object], folder: Path, **more: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "NUMBA_"))} | more
    words = list(map(str, words))
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def bounds(requirement: str) -> str:
    """A requirement at its lower bound, as in numpy==2.1."""
    name, lowest = re.fullmatch(r"([\w.-]+)>=([\w.]+)(?:,.*)?", requirement).groups()
    return f"{name}=={lowest}"


@pytest.mark.parametrize("which", ["oldest", "newest"])
def test_the_sample_runs_under(which: str, tmp_path: Path) -> None:
    wanted = [bounds(one) if which == "oldest" else one for one in PROJECT["dependencies"]]
    call([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    call([*pip, "--constraint", ROOT / "constraints.txt", *wanted], tmp_path)
    own = {"PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PREFECT_HOME": str(tmp_path / "home")}
    walltime = [python, "-m", "flows.cli"]
    call([*walltime, "run", ROOT / "configs" / "sample.toml", "--plain", "--out", tmp_path / "plain"], ROOT, **own)
    answer = call([*walltime, "query", "--from", tmp_path / "plain", "--procs", "8", "--json"], ROOT, **own)
    assert '"runtime_s"' in answer
    call([*walltime, "run", ROOT / "configs" / "sample.toml", "--out", tmp_path / "prefect"], ROOT, **own)
