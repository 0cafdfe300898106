"""Every page of a small site, written once by the commands; a browser; and axe-core, fetched once into a cache.

These tests run with WALLTIME_TEST_PAGES=1 (`make test-pages`) where chromium and playwright are installed.
"""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.simulation.mpi_steps import HERE, simulated_run
from tools.simulation.trace_csv import csv_lines, write_csv

ROOT = Path(__file__).resolve().parents[2]
AXE_VERSION = "4.14.1"
CHROMIUM = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip these tests where they are not asked for, and say what is missing where they are."""
    reason = _why_not()
    for item in items:
        if reason and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))


def _why_not() -> str:
    if not os.environ.get("WALLTIME_TEST_PAGES"):
        return "pages in a browser: WALLTIME_TEST_PAGES=1 or `make test-pages`"
    if CHROMIUM is None:
        return "NO BROWSER: install chromium, as with `apt-get install chromium`"
    try:
        import playwright.sync_api
    except ImportError:
        return "NO PLAYWRIGHT: `.venv/bin/pip install playwright`; its own browsers are not needed"
    assert playwright.sync_api
    return ""


def _walltime(*words: object, cwd: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", *map(str, words)]
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every kind of page: applications, the site, cleaning, a backtest, a replay ..."""
    folder = tmp_path_factory.mktemp("pages")
    config = ROOT / "configs" / "slurm.toml"
    _walltime("run", config, "--out", "tables", "--plain", "--quiet", cwd=folder)
    _walltime("ingest", ROOT / "data_samples" / "traps.swf", "--out", "jobs.parquet", "--quiet", cwd=folder)
    _walltime("clean", "jobs.parquet", "--out", "flagged.parquet", "--report", "pages/clean.html", cwd=folder)
    _walltime(
        "backtest", config, "--methods", "last_two,request", "--report", "pages/backtest.html", "--quiet",
        cwd=folder,
    )  # fmt: skip
    _walltime(
        "replay", ROOT / "data_samples" / "millrace.swf", "--estimates", "soft-10,order", "--shakes", "2",
        "--out", "pages", "--quiet", cwd=folder,
    )  # fmt: skip
    runs = "".join(f"{procs},{100 / procs + 5}\n" for procs in (1, 2, 4, 8, 16))
    (folder / "runs.csv").write_text(f"procs,runtime_s\n{runs}")
    _walltime("scaling", "fit", "runs.csv", "--report", "pages/series.html", "--quiet", cwd=folder)
    write_csv(folder / "steps.csv", csv_lines(simulated_run(1205, 4, HERE, 1)[0]))
    _walltime("phases", "find", "steps.csv", "--out", "found", "--report", "pages/phases.html", cwd=folder)
    _walltime("report", "--from", "tables", "--out", "pages", cwd=folder)
    return folder / "pages"


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    """Debian's chromium, driven by playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The script of axe-core; npm fetches it once, and tests that need it are skipped where it cannot be had."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "walltime-tests"
    packed = cache / f"axe-core-{AXE_VERSION}.tgz"
    if not packed.exists():
        cache.mkdir(parents=True, exist_ok=True)
        npm = shutil.which("npm")
        if npm is None or subprocess.run([npm, "pack", f"axe-core@{AXE_VERSION}"], cwd=cache, check=False).returncode:
            pytest.skip(f"NO AXE-CORE: `npm pack axe-core@{AXE_VERSION}` in {cache} would fetch it")
    with tarfile.open(packed) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()
