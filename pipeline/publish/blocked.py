"""Versions that a check blocked: whole published folders of their own, below `blocked/`, that any command reads.

Nothing of them is published. The newest few stay on disk.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.errors import InputError
from pipeline.publish.checks import CheckResult
from pipeline.publish.folders import drop_folder, locked, remove_leftovers
from pipeline.publish.manifest import RunFacts, TableEntry, load_manifest
from pipeline.publish.retention import Retention
from pipeline.publish.versions import publish
from pipeline.report import Report
from pipeline.storage import write_text

BLOCKED = "blocked"
CHECKS_FILE = "checks.json"
KEPT_BLOCKED = 3
"""Blocked versions that stay on disk: enough to see whether a fault is new, and each takes the bytes of a version."""


def keep_blocked(
    staged: Mapping[str, Path],
    reports: Sequence[Report],
    facts: RunFacts,
    results: Sequence[CheckResult],
    *,
    output_dir: Path,
    created_s: int,
    tables: Mapping[str, TableEntry],
) -> Path:
    """Store the staged tables as a blocked version with the results of its checks; returns its folder."""
    parent = output_dir / BLOCKED
    folder = parent / facts.run_id
    with locked(parent):
        remove_leftovers(parent)
        publish(
            staged, reports, facts, output_dir=folder, created_s=created_s, retention=Retention(newest=2), tables=tables
        )
        write_text(folder / CHECKS_FILE, json.dumps({"checks": plain_results(results)}, indent=1) + "\n")
        others = sorted((one for one in _blocked_folders(parent) if one != folder), key=_age, reverse=True)
        for old in others[KEPT_BLOCKED - 1 :]:
            drop_folder(old)
    return folder


def plain_results(results: Sequence[CheckResult]) -> list[dict[str, object]]:
    """The results of checks in plain values for JSON."""
    return [
        {
            "check": result.name,
            "mode": result.mode,
            "state": result.state,
            "reason": result.reason,
            "findings": [{"where": f.where, "found": f.found, "expected": f.expected} for f in result.findings],
        }
        for result in results
    ]


def blocked_versions(output_dir: Path) -> list[tuple[int, str]]:
    """The blocked versions on disk: when each was made (UTC epoch seconds; 0: unknown), and its folder's name."""
    return sorted(_age(folder) for folder in _blocked_folders(output_dir / BLOCKED))


def _blocked_folders(parent: Path) -> list[Path]:
    """Folders that hold the results of checks; others below `blocked/` are not ours to remove."""
    return [path.parent for path in parent.glob(f"*/{CHECKS_FILE}")]


def _age(folder: Path) -> tuple[int, str]:
    try:
        return load_manifest(folder).created_s, folder.name
    except InputError:
        return 0, folder.name
