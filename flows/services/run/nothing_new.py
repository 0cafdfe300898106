"""Finds that a run would make the tables that are published already: the same logs, settings and code."""

from pathlib import Path

from flows.services.progress import StageEvent, notify
from pipeline.core.errors import InputError
from pipeline.core.report import Report
from pipeline.core.store import file_sha256
from pipeline.publish import load_manifest
from pipeline.run import PUBLISHED, STEPS, Run


def published_run(run: Run, folder: Path) -> tuple[dict[str, Path], list[Report]] | None:
    """The published tables by name and the reports of their steps, if they are the intact result of this very run.

    The steps count as reused then. Publication and its checks come as usual, because some depend on the time.
    """
    try:
        manifest = load_manifest(folder)
    except InputError:
        return None
    is_complete = not set(PUBLISHED) - set(manifest.tables) and len(manifest.reports) >= len(STEPS)
    if manifest.run_id != run.run_id or not is_complete:
        return None
    tables = {name: manifest.path(name) for name in PUBLISHED}
    # Those of the steps come first and in their order; that of the checks is made again.
    reports = [Report.from_dict(plain) for plain in manifest.reports[: len(STEPS)]]
    try:
        is_intact = all(file_sha256(path) == manifest.tables[name].sha256 for name, path in tables.items())
    except OSError:
        return None
    if not is_intact:
        return None
    for step, report in zip(STEPS, reports, strict=True):
        notify(StageEvent(step.name, "started"))
        notify(StageEvent(step.name, "reused", report=report))
    return tables, reports
