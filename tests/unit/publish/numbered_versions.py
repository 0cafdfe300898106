"""Small versions that carry one number in every row, so that a mixture of two shows; for tests of publishing."""

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline.publish import Retention, load_manifest
from pipeline.publish.manifest import made_manifest
from pipeline.publish.versions import keep_unpublished
from pipeline.report import Report, Tally
from pipeline.storage import write_table
from pipeline.tables import FITS, OBSERVATIONS
from tests.publishing import facts_of, publish

NOON = int(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp())
"""A Sunday."""

ALL = Retention(newest=100)


REPORT = Report("fit", "group", Tally(3, 9.0), Tally(3, 9.0), facts={"ratio": float("nan")})


def stage(folder: Path, t1_s: float, n_rows: int = 3) -> dict[str, Path]:
    """Two staged tables that both carry one number, so that a mixture shows."""
    groups = [f"g{i}" for i in range(n_rows)]
    fits = FITS.build(
        group_id=groups,
        law=["constant"] * n_rows,
        t1_s=[t1_s] * n_rows,
        n_points=[1] * n_rows,
        n_jobs=[1] * n_rows,
        status=["ok"] * n_rows,
        is_chosen=[True] * n_rows,
    )
    seen = OBSERVATIONS.build(
        group_id=groups,
        procs=[1] * n_rows,
        n_jobs=[1] * n_rows,
        runtime_s_median=[t1_s] * n_rows,
        last_end_s=[7] * n_rows,
    )
    return {
        "fits": write_table(folder / "fits.parquet", fits, FITS),
        "observations": write_table(folder / "observations.parquet", seen, OBSERVATIONS),
    }


def facts(run_id: str) -> dict[str, Any]:
    return facts_of(run_id, "riverbend", {"fit": {"noise_floor": 0.02}}, [("a.swf", "ab" * 32)], "0.1.0+abc")


def put(staged: dict[str, Path], run_id: str, out: Path, created_s: int = 100, keep: int = 3) -> Path:
    return publish(
        staged, [REPORT], facts(run_id), output_dir=out, created_s=created_s, retention=Retention(newest=keep)
    )


def numbers(out: Path) -> set[float]:
    """Every number the current version holds; more than one: the version is a mixture."""
    manifest = load_manifest(out)
    fits = pq.read_table(manifest.path("fits"), partitioning=None).column("t1_s").to_pylist()
    seen = pq.read_table(manifest.path("observations"), partitioning=None).column("runtime_s_median").to_pylist()
    return {*fits, *seen}


def die_in_step(step: int, patch: pytest.MonkeyPatch) -> None:
    """Let the process die before its n-th change of the file system, as by kill -9 or a power cut."""
    calls = iter(range(1_000))

    def dying(name: str, module: object) -> None:
        original = getattr(module, name)

        def call(*args: object, **options: object) -> object:
            if next(calls) == step:
                os._exit(9)
            return original(*args, **options)

        patch.setattr(module, name, call)

    for name in ("replace", "rename", "fsync", "mkdir", "unlink", "link"):
        dying(name, os)
    for name in ("copyfile", "rmtree"):
        dying(name, shutil)


class Clock:
    """Publishes one run after another into a folder, at times that a test chooses."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"

    def publish(self, number: float, at_s: int, run_id: str = "", retention: Retention = ALL) -> str:
        staged = stage(self.folder / "staged", number)
        publish(
            staged,
            [REPORT],
            facts(run_id or f"r{number:g}"),
            output_dir=self.out,
            created_s=at_s,
            retention=retention,
        )
        return load_manifest(self.out).folder

    def rerun(self, number: float, at_s: int, name: str, run_id: str = "") -> str:
        known = facts_of(run_id or f"r{number:g}", "riverbend", {}, [], "code", name=name, from_s=1, to_s=2)
        staged = stage(self.folder / "staged", number)
        return keep_unpublished(staged, made_manifest(staged, [REPORT], known, self.out, at_s)).folder

    @property
    def folders(self) -> list[str]:
        return sorted(path.name for path in (self.out / "versions").iterdir() if not path.name.startswith("."))
