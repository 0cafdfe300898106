"""What the flow tests share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.job_answers import LoadedState, state_of
from pipeline.publish import Retention, read_version
from pipeline.settings import RunSettings
from pipeline.storage import write_table
from pipeline.tables import STATE
from tests.publishing import facts_of, publish
from tests.rows import jobs_of

HOUR_S = 3600
SAMPLES = Path(__file__).resolve().parents[2] / "data_samples"


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


def live_state_of(folder: Path) -> LoadedState:
    """The State that answers for a published folder."""
    manifest = read_version(folder)
    return state_of(manifest, is_live=True)


def put_out(table: pa.Table, folder: Path, settings: RunSettings, site: str = "here") -> Path:
    """A published folder that holds a STATE and nothing else."""
    staged = {"state": write_table(folder / "staged" / "state.parquet", table, STATE)}
    facts = facts_of("run", site, settings.model_dump(mode="json"), [], "code")
    publish(staged, [], facts, output_dir=folder / "out", created_s=0, retention=Retention(newest=2))
    return folder / "out"


def history(n: int = 60) -> Any:
    """Jobs of half an hour that asked for four hours, and of users that left the queue."""
    rows = [
        {
            "job_id": str(k), "user": ("ada", "bob")[k % 2], "account": "phys", "queue": "long", "job_name": "solver",
            "application": "solver", "submit_s": k * HOUR_S, "start_s": k * HOUR_S + 60,
            "end_s": k * HOUR_S + 60 + 1800 + k % 7, "runtime_s": 1800.0 + k % 7, "procs": 4,
            "requested_s": 4.0 * HOUR_S, "state": "COMPLETED",
        }
        for k in range(n)
    ]  # fmt: skip
    return jobs_of(rows)
