"""Runs the Slurm plug-in over a made look-up, where Lua is installed; for its tests."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.history import History
from pipeline.tables import ESTIMATES, LIMITS
from tests.unit.export.lua_runner import INTERPRETERS, MISSING, submitted

needs_lua = pytest.mark.skipif(not INTERPRETERS, reason=MISSING)
each_lua = pytest.mark.parametrize("interpreter", INTERPRETERS or ("lua",))

NO_VAL, INFINITE = 4294967294, 4294967295
NEWEST_S = 4_000_000_000
"""No look-up of these tests is old, unless it says so."""
PARTS = {
    "batch": {"default_time": 30, "max_time": 1440, "flag_default": 1},
    "long": {"default_time": NO_VAL, "max_time": 600},
}


def table_of(*rows: dict[str, object]) -> pa.Table:
    """ESTIMATES of rows with a constant runtime_s unless given."""
    plain = {"site": "here", "run_id": "r", "newest_end_s": NEWEST_S, "n_jobs": 7, "n_effective": 7.0}
    full = []
    for row in rows:
        given = plain | row
        runtime_s = given.pop("runtime_s", 100.0)
        full.append({f"runtime_s_{q}": runtime_s for q in ("q10", "q50", "q80", "q90", "q95", "q99")} | given)
    names = {name for row in full for name in row}
    return ESTIMATES.build(**{name: [row.get(name) for row in full] for name in sorted(names)})


def limits_of(*rows: dict[str, object]) -> pa.Table:
    """LIMITS of rows, by user unless given."""
    plain = {
        "site": "here", "run_id": "r", "newest_end_s": NEWEST_S, "n_jobs": 12, "template": "who", "chain_rank": 0,
        "status": "limited", "most_jobs": 5, "chance_beyond": 0.01,
    }  # fmt: skip
    full = [plain | row for row in rows]
    names = {name for row in full for name in row}
    return LIMITS.build(**{name: [row.get(name) for row in full] for name in sorted(names)}) if rows else LIMITS.empty()


def limited(who: str, limit_s: float, **values: object) -> dict[str, object]:
    return {"who": who, "limit_s": limit_s} | values


def of_user(who: str, runtime_s: float, **values: object) -> dict[str, object]:
    return {"template": "who", "chain_rank": 6, "who": who, "runtime_s": runtime_s} | values


def one(interpreter: str, text: str, folder: Path, parts=PARTS, **job) -> dict[str, str]:
    plain = {"user_name": "ada", "name": "relax_12.sh", "partition": "batch", "time_limit": 60, "min_cpus": 4}
    plain["script"] = "#!/bin/sh"
    (found,), logged = submitted(interpreter, text, [plain | job], parts, folder)
    assert not [line for line in logged if line.startswith("error")], logged
    return found


def job_at(log: History, place: int) -> dict[str, str | float | None]:
    texts = {name: [*log.names[name], None][log.codes[name][place]] for name in ("who", "what", "queue")}
    return texts | {"requested_s": float(np.nan_to_num(log.requested_s[place])), "procs": float(log.procs[place])}
