"""What cleaning in blocks changes: the share of jobs whose flag differs from that of the log cleaned at once.

python benchmarks/clean_blocks.py LOG... [--config configs/swf.toml]

Each log is cleaned at once and in blocks of about so many jobs (`stage.BLOCK_JOBS`). A cell has the jobs that only the
whole log sets aside, the jobs that only the blocks set aside, and both as a share of the jobs.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.services.files.os_errors import config_settings
from pipeline.arrays import Bools
from pipeline.clean import clean, stage
from pipeline.ingest import ingest
from pipeline.settings import RunSettings

ROOT = Path(__file__).parents[1]
SIZES = (200_000, 100_000, 50_000, 20_000)


def set_aside(jobs: pa.Table, settings: RunSettings, block_jobs: int) -> Bools:
    """Where cleaning in blocks of this size sets a job aside."""
    stage.BLOCK_JOBS = block_jobs
    flagged, *_ = clean(jobs, settings.clean, settings.site)
    found: Bools = pc.is_valid(flagged.column("flag")).to_numpy()
    return found


def main() -> None:
    """Print a row for each log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", type=Path)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "swf.toml")
    asked = parser.parse_args()
    settings = config_settings(asked.config)
    print("| log | jobs | set aside at once | " + " | ".join(f"{n:,}" for n in SIZES) + " |")
    print("| --- |" + " ---: |" * (len(SIZES) + 2))
    for path in asked.logs:
        jobs = ingest([path], settings.site, settings.ingest)[0]
        whole, cells = set_aside(jobs, settings, 10 * jobs.num_rows), []
        for block_jobs in SIZES:
            blocks = set_aside(jobs, settings, block_jobs)
            lost, new = int(np.sum(whole & ~blocks)), int(np.sum(blocks & ~whole))
            cells.append(f"{lost:,} {new:,} ({(lost + new) / jobs.num_rows:.2%})" if block_jobs < jobs.num_rows else "")
        print(f"| {path.name.split('.')[0]} | {jobs.num_rows:,} | {whole.sum():,} | " + " | ".join(cells) + " |",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
