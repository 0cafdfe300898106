"""A run that holds a few hundred jobs at a time publishes what one that holds all of them does."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from flows.services.run.running import run_and_publish
from pipeline import large_tables
from pipeline.clean import stage
from pipeline.group import templates
from pipeline.ingest import OnDisk, records
from pipeline.publish import Manifest, load_manifest
from pipeline.schema import TableKind

SAMPLES = Path(__file__).parents[2] / "data_samples"
CONFIG = """
output_dir = "{out}"
logs = ["{samples}/riverbend.swf.gz"]
[site]
name = "riverbend"
"""


def published(tmp_path: Path, name: str) -> Manifest:
    out, config = tmp_path / name, tmp_path / f"{name}.toml"
    config.write_text(CONFIG.format(out=out, samples=SAMPLES))
    run_and_publish(str(config))
    return load_manifest(out)


def digests(manifest: Manifest) -> dict[str, str]:
    return {name: entry.sha256 for name, entry in manifest.tables.items()}


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_tables, "PART_ROWS", 701)
    monkeypatch.setattr(records, "BATCH_ROWS", 900)
    between = OnDisk.between_steps
    monkeypatch.setattr(OnDisk, "between_steps", lambda folder: replace(between(folder), hold_bytes=1 << 16))


def test_small_parts_give_the_same_bytes(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    expected = digests(published(tmp_path, "whole"))
    request.getfixturevalue("small_parts")
    assert digests(published(tmp_path, "parts")) == expected


@pytest.mark.usefixtures("small_parts")
def test_no_step_reads_more_jobs_at_a_time_than_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_rows: list[int] = []
    read = large_tables.read_rows

    def rows(path: Path, kind: TableKind, columns: Sequence[str] | None, first: int, after: int) -> pa.Table:
        n_rows.append(after - first)
        return read(path, kind, columns, first, after)

    monkeypatch.setattr(large_tables, "read_rows", rows)
    monkeypatch.setattr(stage, "BLOCK_JOBS", 2000)
    monkeypatch.setattr(templates, "COMPARE_JOBS", 2000)
    for user in ("pipeline.run", "pipeline.estimate.stage", "pipeline.estimate.estimates", "pipeline.limits.advice"):
        monkeypatch.setattr(f"{user}.LEARN_JOBS", 2000)
    config = tmp_path / "site.toml"
    config.write_text(CONFIG.format(out=tmp_path / "out", samples=SAMPLES))
    run_and_publish(str(config))
    n_jobs = load_manifest(tmp_path / "out").tables["jobs"].rows
    assert n_jobs > 3 * 3100
    # One and a half times 2,000, and what lies before the gap at the end of a block.
    assert 701 < max(n_rows) <= 3100
    assert sum(n_rows) > 4 * n_jobs
