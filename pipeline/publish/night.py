"""A night's tables before they are published, and the version that they are compared with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.text import printable
from pipeline.publish.datapackage import PackageFacts, read_package
from pipeline.publish.manifest import VERSIONS, Manifest
from pipeline.publish.table_facts import TableFacts


@dataclass(frozen=True, slots=True)
class Night:
    """What the checks look at. `before` is the version published before; `nothing_before` says why there is none."""

    code: str
    files: Mapping[str, Path]
    tables: Mapping[str, TableFacts]
    reports: Mapping[str, Mapping[str, Any]]
    now_s: float
    before: PackageFacts | None = None
    nothing_before: str = "no version was published before"


def version_before(manifest: Manifest | None, site: str, *, published: bool = False) -> tuple[PackageFacts | None, str]:
    """The version to compare with, or None and the reason.

    It is the current version of the manifest. Where the current version itself is `published` and checked, it is the
    newest of its previous versions.
    """
    if manifest is None:
        return None, "no version was published before"
    folders = [entry.folder for entry in manifest.previous][:1] if published else [manifest.folder]
    if not folders:
        return None, "no version was published before"
    try:
        before = read_package(manifest.root / VERSIONS / folders[0])
    except InputError as error:
        return None, str(error).rstrip(".")
    if before.site != printable(site, 4_000):
        return None, f"the version published before is of site {before.site}"
    return before, ""


def report_facts(reports: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The facts of each stage's report."""
    return {str(report["stage"]): report.get("facts", {}) for report in reports}
