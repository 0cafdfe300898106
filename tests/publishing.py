"""Publishes tables that a test has staged."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline import publish as publishing
from pipeline.publish import Retention, RunFacts
from pipeline.publish.manifest import made_manifest
from pipeline.report import Report


def publish(
    staged: Mapping[str, Path],
    reports: Sequence[Report],
    facts: RunFacts,
    *,
    output_dir: Path,
    created_s: int,
    retention: Retention,
) -> Path:
    """Publish the staged tables; returns the manifest's path."""
    return publishing.publish(staged, made_manifest(staged, reports, facts, output_dir, created_s), retention)
