"""Pictures of the pages that commands write, from a run of the sample: `python -m docs.tools.pictures`, with chromium.

Each picture is the upper part of a page, docs/img/NAME.png. The clock stands, so that dates are the same.
A page that a command no longer writes ends the script.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "img"
WIDTH, HEIGHT = 1200, 1000
CLOCK = "import time; time.time = lambda: 1_795_500_000.0; from flows.cli import main; main()"

COMMANDS = (
    ("run", "configs/sample.toml", "--out", "{work}/tables", "--plain", "--quiet"),
    ("report", "--from", "{work}/tables", "--out", "{work}/applications"),
    ("ingest", "data_samples/riverbend.swf.gz", "--site", "riverbend", "--out", "{work}/jobs.parquet"),
    ("clean", "{work}/jobs.parquet", "--out", "{work}/flagged.parquet", "--report", "{work}/cleaning.html"),
    ("scaling", "fit", "docs/samples/runs.csv", "--predict", "64,128", "--report", "{work}/series.html"),
    ("backtest", "configs/sample.toml", "--methods", "walltime,last_two", "--report", "{work}/backtest.html"),
)
PAGES = {
    "page-of-a-site": "applications/site.html",
    "page-of-an-application": "applications/*-*.html",
    "page-of-cleaning": "cleaning.html",
    "page-of-a-series": "series.html",
    "page-of-a-backtest": "backtest.html",
}
"""The pictures, and the page of each; of several pages the first by name."""


def main() -> None:
    """Write every picture."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("chromium was not found: install it (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for command in COMMANDS:
            _walltime([part.format(work=work) for part in command])
        for name, pattern in PAGES.items():
            _picture(chromium, min(work.glob(pattern)), IMAGES / f"{name}.png", work)
            sys.stdout.write(f"Wrote {(IMAGES / name).relative_to(ROOT)}.png\n")


def _walltime(arguments: list[str]) -> None:
    command = [sys.executable, "-c", CLOCK, *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603


def _picture(chromium: str, page: Path, out: Path, work: Path) -> None:
    profile = f"--user-data-dir={work / 'chromium'}"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", profile]
    shot = [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={out}", page.as_uri()]
    subprocess.run([chromium, *options, *shot], check=True, capture_output=True)  # noqa: S603


if __name__ == "__main__":
    main()
