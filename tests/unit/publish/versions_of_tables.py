"""Small staged tables, for tests of what is published."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from pipeline import code_version
from pipeline.publish import load_manifest
from pipeline.publish.manifest import VERSIONS
from pipeline.schema import TableKind
from pipeline.storage import write_table
from pipeline.tables import ESTIMATES, JOBS, OBSERVATIONS, PREDICTIONS, TEMPLATES
from tests.publishing import facts_of

DAY_S = 86_400
NEWEST_S = 1_700_000_000


def observations(medians: list[float], **more: Any) -> pa.Table:
    """One group per median; q10 and q90 are 10% below and above."""
    n = len(medians)
    given = {
        "group_id": [f"g{i}" for i in range(n)],
        "procs": [4] * n,
        "n_jobs": [3] * n,
        "runtime_s_q10": [0.9 * one for one in medians],
        "runtime_s_median": medians,
        "runtime_s_q90": [1.1 * one for one in medians],
        "last_end_s": [NEWEST_S] * n,
    }
    return OBSERVATIONS.build(**(given | more))


def jobs(n: int, **more: Any) -> pa.Table:
    """Kept jobs of two users, the last of which ended at NEWEST_S."""
    given = {
        "site": ["oxbow"] * n,
        "job_id": [str(i) for i in range(n)],
        "restart": [0] * n,
        "user": ["ann", "bob"] * (n // 2) + ["ann"] * (n % 2),
        "end_s": [NEWEST_S - i for i in range(n)],
        "procs": [4] * n,
        "runtime_s": [60.0] * n,
        "source_file": ["a.swf"] * n,
        "source_line": list(range(1, n + 1)),
    }
    return JOBS.build(**(given | more))


def predictions(n: int, **more: Any) -> pa.Table:
    """Predictions with intervals in order."""
    ends = {"lo95": 40.0, "lo80": 50.0, "hi80": 70.0, "hi95": 80.0}
    given = {
        "group_id": [f"g{i}" for i in range(n)],
        "procs": [4] * n,
        "runtime_s": [60.0] * n,
        **{f"runtime_s_{name}": [value] * n for name, value in ends.items()},
        "is_extrapolated": [False] * n,
        "method": ["observed"] * n,
        "run_id": ["r"] * n,
    }
    return PREDICTIONS.build(**(given | more))


def estimates(n: int, **more: Any) -> pa.Table:
    """Estimates whose quantiles ascend."""
    given = {
        "site": ["oxbow"] * n,
        "template": ["who"] * n,
        "chain_rank": [0] * n,
        "who": [f"u{i}" for i in range(n)],
        "n_jobs": [3] * n,
        "run_id": ["r"] * n,
        "method": ["observed"] * n,
        **{f"runtime_s_q{q}": [float(q)] * n for q in (10, 50, 80, 90, 95, 99)},
        **{f"ratio_q{q}": [q / 100] * n for q in (10, 50, 80, 90, 95, 99)},
    }
    del given["method"]
    return ESTIMATES.build(**(given | more))


def templates(chosen: str, previous: str) -> pa.Table:
    """The compared templates."""
    names = ["user", "user+procs"]
    return TEMPLATES.build(
        template=names,
        is_chosen=[name == chosen for name in names],
        is_previous=[name == previous for name in names],
    )


KINDS: dict[str, TableKind] = {kind.name: kind for kind in (JOBS, OBSERVATIONS, PREDICTIONS, ESTIMATES, TEMPLATES)}


def staged(folder: Path, **tables: pa.Table) -> dict[str, Path]:
    """The tables as Parquet files of a folder; those not given are sound and have 200 rows."""
    sound = {
        "jobs": jobs(200),
        "observations": observations([60.0] * 200),
        "predictions": predictions(200),
        "estimates": estimates(200),
    }
    return {
        name: write_table(folder / f"{name}.parquet", table, KINDS[name]) for name, table in (sound | tables).items()
    }


def run_facts(run_id: str = "aa11", site: str = "oxbow", **more: Any) -> dict[str, Any]:
    """What made the tables."""
    given: dict[str, Any] = {"settings": {"fit": {"x": 1.0}}, "logs": [("a.swf", "ab" * 32)], "code": code_version()}
    return facts_of(run_id, site, **(given | more))


def folder_of(out: Path, run_id: str) -> Path:
    """The folder of the only published version of this run."""
    (folder,) = [entry.folder for entry in load_manifest(out).history if entry.run_id == run_id]
    return out / VERSIONS / folder
