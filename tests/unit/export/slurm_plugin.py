"""Runs the Slurm plug-in over a made look-up, where Lua is installed; for its tests."""

from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from pipeline.estimate.history import History
from pipeline.export.lookup_reader import Lookup, row_of
from pipeline.tables import ESTIMATES, MEMORY
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
    plain = {"site": "here", "run_id": "r", "newest_end_s": NEWEST_S, "n_jobs": 7}
    full = []
    for row in rows:
        given = plain | row
        runtime_s = given.pop("runtime_s", 100.0)
        full.append({f"runtime_s_{q}": runtime_s for q in ("q10", "q50", "q80", "q90", "q95", "q99")} | given)
    names = {name for row in full for name in row}
    return ESTIMATES.build(**{name: [row.get(name) for row in full] for name in sorted(names)})


def memory_of(*rows: dict[str, object]) -> pa.Table:
    """MEMORY of rows of the user ada's jobs of relax on 4 processors with 4 GiB each, unless given."""
    plain = {
        "site": "here", "run_id": "r", "newest_end_s": NEWEST_S, "n_jobs": 12, "who": "ada", "what": "relax",
        "template": "who+what+requested_mem_kib+procs", "chain_rank": 1, "procs": 4, "requested_mem_kib": 4 * 2.0**20,
        "recommended_mem_kib": 2.0**20, "largest_mem_kib": 2.0**19,
    }  # fmt: skip
    full = [plain | row for row in rows]
    names = {name for row in full for name in row}
    return MEMORY.build(**{name: [row.get(name) for row in full] for name in sorted(names)}) if rows else MEMORY.empty()


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
    numbers = {"requested_s": log.requested_s, "procs": log.procs, "gpus": log.gpus}
    gpu_type = [*log.names["gpu_type"], ""][log.codes["gpu_type"][place]]
    return texts | {name: float(np.nan_to_num(own[place])) for name, own in numbers.items()} | {"gpu_type": gpu_type}


class Found(NamedTuple):
    """An answer of the look-up: the row's template and jobs, and the quantiles of the runtime."""

    template: str
    n_jobs: int
    quantiles_s: tuple[float, ...]


def found_in(lookup: Lookup, job: dict[str, Any]) -> Found | None:
    """The answer of the first row of estimates that is present, as plug-ins compute it; None where none is."""
    for rank, template in lookup.chain.items():
        line = row_of(lookup.line_of, rank, template, defaultdict(lambda: None, job))
        if line is not None:
            n_jobs, *numbers = map(float, line.split("\t"))
            request_s = float(job.get("requested_s") or 0.0)
            found = [one * request_s for one in numbers[6:]] if len(numbers) > 6 and request_s > 0 else numbers[:6]
            cut = [min(one, request_s) if request_s > 0 else one for one in found[:2]]
            return Found(template, int(n_jobs), (*cut, *found[2:]))
    return None
