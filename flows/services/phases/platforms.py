"""The predictions for other platforms that a folder holds, and the answers they give to `walltime query --platform`."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import naming_path
from pipeline.errors import InputError, printable
from pipeline.phase_tables import PLATFORM_PREDICTIONS
from pipeline.storage import read_table, write_table

FILE = f"{PLATFORM_PREDICTIONS.name}.parquet"


def put_prediction(folder: Path, row: pa.Table) -> Path:
    """Add a prediction to a folder, in place of an older one of the same run and platform; sorted by both."""
    path = folder / FILE
    if path.exists():
        before = read_table(path, PLATFORM_PREDICTIONS)
        rows = {(one["trace_id"], one["platform"]): one for one in (*before.to_pylist(), *row.to_pylist())}
        row = pa.Table.from_pylist([rows[key] for key in sorted(rows)], PLATFORM_PREDICTIONS.schema())
    with naming_path(path):
        return write_table(path, PLATFORM_PREDICTIONS.check(row), PLATFORM_PREDICTIONS)


def platform_answer(
    folder: Path, platform: str, application: str | None = None, procs: int | None = None
) -> dict[str, Any]:
    """The predictions for a platform, of an application and processors where they are given, in plain values.

    InputError where the folder has none.
    """
    path = folder / FILE
    if not path.exists():
        do = "run walltime phases predict, with --publish for a folder of a run"
        raise InputError(printable(str(folder)), "no predictions for other platforms", f"a file {FILE}", do)
    rows = read_table(path, PLATFORM_PREDICTIONS).to_pylist()
    wanted = {"platform": platform, "application": application, "procs": procs}
    found = [row for row in rows if all(value is None or row[name] == value for name, value in wanted.items())]
    if not found:
        asked = ", ".join(f"{name} {printable(str(value), 60)}" for name, value in wanted.items() if value is not None)
        known = sorted({printable(row["platform"], 60) for row in rows})
        raise InputError(printable(str(path)), f"no prediction for {asked}", f"one of the platforms {', '.join(known)}")
    return {"platform": platform, "predictions": found}
