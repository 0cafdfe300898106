"""What the flow tests share."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pipeline.publish import Retention, RunFacts
from pipeline.settings import RunSettings
from pipeline.storage import write_table
from pipeline.tables import STATE
from tests.publishing import publish

SAMPLES = Path(__file__).resolve().parents[2] / "data_samples"


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


def put_out(table: pa.Table, folder: Path, settings: RunSettings, site: str = "here") -> Path:
    """A published folder that holds a STATE and nothing else."""
    staged = {"state": write_table(folder / "staged" / "state.parquet", table, STATE)}
    facts = RunFacts("run", site, settings.model_dump(mode="json"), [], "code")
    publish(staged, [], facts, output_dir=folder / "out", created_s=0, retention=Retention(newest=2))
    return folder / "out"
