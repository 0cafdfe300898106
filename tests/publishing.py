"""Publishes tables that a test has staged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import publish as publishing
from pipeline.publish import Retention
from pipeline.publish.manifest import LogEntry, made_manifest
from pipeline.report import Report


def facts_of(
    run_id: str,
    site: str,
    settings: Mapping[str, Any] | None = None,
    logs: Sequence[tuple[str, str]] = (),
    code: str = "code",
    **more: object,
) -> dict[str, Any]:
    """Which run made the tables, as `made_manifest` takes it."""
    read = tuple(LogEntry(*log) for log in logs)
    return {"run_id": run_id, "site": site, "settings": settings or {}, "logs": read, "code": code, **more}


def publish(
    staged: Mapping[str, Path],
    reports: Sequence[Report],
    facts: Mapping[str, Any],
    *,
    output_dir: Path,
    created_s: int,
    retention: Retention,
) -> Path:
    """Publish the staged tables; returns the manifest's path."""
    return publishing.publish(staged, made_manifest(staged, reports, facts, output_dir, created_s), retention)
