"""What stands between a run's steps and its tables: are they published already, the checks, and the publication."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from flows.services.progress import StageEvent, notify
from pipeline.config_file import parse_settings
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.publish import Manifest, publish, reading
from pipeline.publish.checks import (
    CHECKS,
    CheckResult,
    Night,
    check_night,
    failed,
    keep_blocked,
    version_before,
)
from pipeline.publish.manifest import LogEntry, entries_of, manifest_or_none
from pipeline.publish.mirror import mirror
from pipeline.publish.versions import RETENTION
from pipeline.report import Report, Tally
from pipeline.run import PUBLISHED, STEPS, Run
from pipeline.settings import RunSettings
from pipeline.tables import TABLES
from pipeline.version import code_version

BLOCKED_EXIT_CODE = 4
_FINDINGS_SHOWN = 4


class BlockedVersionError(WalltimeError):
    """A check blocked the publication: which one, what it found and expected, and where the tables are."""

    exit_code = BLOCKED_EXIT_CODE

    def __init__(self, results: Sequence[CheckResult], folder: Path, report: Report, site: str) -> None:
        self.report, self.site = report, site
        names = [result.check for result in failed(results, blocking=True)]
        how = f'set checks.{names[0]}.mode to "warn"' if len(names) == 1 else "set their modes under [checks] to warn"
        super().__init__(
            f"{_findings_text(failed(results, blocking=True))}. Nothing was published: the tables published before "
            f"stay, and the blocked version is in {printable(str(folder), 1000)}; "
            f"correct the log or the config, or {how}, and run again."
        )


def publish_checked(staged: Mapping[str, Path], made: Manifest, settings: RunSettings) -> Path:
    """Check and publish staged tables; returns the manifest's path. The report of the checks is added to the others.

    BlockedVersionError where a check blocks, after the tables were kept.
    """
    before, reason = version_before(manifest_or_none(made.root), made.site)
    night = Night(made, staged, made.created_s, settings.checks, before.tables if before else None, reason)
    results = check_night(night)
    report = checks_report(results)
    made = replace(made, reports=(*made.reports, report.as_dict()))
    if failed(results, blocking=True):
        raise BlockedVersionError(results, keep_blocked(staged, made), report, made.site)
    kept = replace(RETENTION, newest=settings.publish.keep_versions)
    return publish(staged, made, kept)


def mirror_failure(folder: Path, to: str | None) -> str:
    """Copy the published version to `publish.mirror`; the sentence of a failure, which ends no run, else empty."""
    try:
        if to is not None:
            with reading(folder) as manifest:
                mirror(manifest, to)
    except (WalltimeError, OSError, ValueError) as error:
        place, reason = printable(str(to), 300), printable(str(error).rstrip("."), 300)
        return f"the published version was not copied to {place} ({reason}); the next run tries again."
    return ""


def check_published(folder: Path, now_s: float) -> dict[str, Any]:
    """The checks of the published version, in plain values, with the settings of its run.

    `passed` is false where one that blocks has failed. InputError where nothing is published there.
    """
    with reading(folder) as manifest:
        before, reason = version_before(manifest, manifest.site, published=True)
        files = {name: manifest.path(name) for name in manifest.tables if name in TABLES}
        # A run of another release has recorded no settings of checks, or those of others.
        known = {name: one for name, one in manifest.settings.get("checks", {}).items() if name in CHECKS}
        settings = parse_settings({"checks": known}, printable(str(manifest.root)))
        made = replace(manifest, tables=entries_of(files))
        results = check_night(Night(made, files, now_s, settings.checks, before.tables if before else None, reason))
    return {
        "run_id": manifest.run_id,
        "site": manifest.site,
        "folder": manifest.folder,
        "compared_with": before.run_id if before else None,
        "not_compared": reason or None,
        "passed": not failed(results, blocking=True),
        "checks": [asdict(one) for one in results],
    }


def checks_report(results: Sequence[CheckResult]) -> Report:
    """The checks as a report: passed, failed and skipped ones; a note for each that failed."""
    counts = {state: sum(result.state == state for result in results) for state in ("passed", "failed", "skipped")}
    set_aside = {state: Tally(counts[state]) for state in ("failed", "skipped") if counts[state]}
    notes = tuple(f"{_findings_text([result])}." for result in results if result.state == "failed")
    return Report(
        "checks", "check", Tally(len(results)), Tally(counts["passed"]), set_aside,
        {result.check: result.state for result in results}, notes,
    ).check()  # fmt: skip


def _findings_text(results: Sequence[CheckResult]) -> str:
    """The findings of failed checks in one line; further ones than the first few are counted."""
    parts = []
    for result in results:
        more = len(result.findings) - _FINDINGS_SHOWN
        shown = "; ".join(str(finding) for finding in result.findings[:_FINDINGS_SHOWN])
        parts.append(f"Check {result.check} failed: {shown}{f'; and {more} more' if more > 0 else ''}")
    return ". ".join(parts)


def run_facts(run: Run, name: str = "") -> dict[str, Any]:
    """What the manifest says about a run; `name` is what a user called it."""
    return {
        "run_id": run.run_id,
        "site": run.settings.site.name,
        "settings": run.settings.model_dump(mode="json", exclude={"logs", "source", "output_dir", "run"}),
        "logs": tuple(map(LogEntry, run.log_labels, run.log_digests)),
        "code": code_version(),
        "name": name,
        "from_s": run.window_s[0],
        "to_s": run.window_s[1],
    }


def published_run(run: Run, folder: Path) -> tuple[dict[str, Path], list[Report]] | None:
    """The published tables by name and the reports of their steps, if they are the intact result of this very run.

    The steps count as reused then. Publication and its checks come as usual, because some depend on the time.
    """
    manifest = manifest_or_none(folder)
    if manifest is None or manifest.run_id != run.run_id:
        return None
    # The reports of the steps come first and in their order; that of the checks is made again.
    reports = [Report.from_dict(plain) for plain in manifest.reports[: len(STEPS)]]
    if set(PUBLISHED) - set(manifest.tables) or len(reports) < len(STEPS):
        return None
    try:
        tables = {name: manifest.path(name) for name in PUBLISHED}
    except InputError:
        return None
    for step, report in zip(STEPS, reports, strict=True):
        notify(StageEvent(step.name, "started"))
        notify(StageEvent(step.name, "reused", report=report))
    return tables, reports
