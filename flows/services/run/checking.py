"""Checks a night's staged tables, and holds them back where a check blocks."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.core.check_settings import CheckSettings
from pipeline.core.errors import InputError, WalltimeError
from pipeline.core.report import Report, Tally
from pipeline.core.settings import RunSettings, parse_settings
from pipeline.core.tables import TABLES
from pipeline.core.text import printable
from pipeline.publish import Manifest, RunFacts, load_manifest, reading
from pipeline.publish.held import hold, plain_results
from pipeline.publish.night import Night, report_facts, version_before
from pipeline.publish.night_checks import CheckResult, check_night, failed
from pipeline.publish.table_facts import TableFacts, facts_of

HELD_EXIT_CODE = 4
_FINDINGS_SHOWN = 4


class HeldNightError(WalltimeError):
    """A check blocked the publication: which one, what it found and expected, and where the tables are."""

    exit_code = HELD_EXIT_CODE

    def __init__(self, results: Sequence[CheckResult], folder: Path, report: Report) -> None:
        self.report = report
        names = [result.name for result in failed(results, blocking=True)]
        how = f'set checks.{names[0]}.mode to "warn"' if len(names) == 1 else "set their modes under [checks] to warn"
        super().__init__(
            f"{_findings_text(failed(results, blocking=True))}. Nothing was published: the tables published before "
            f"stay, and this night's are held in {printable(str(folder), 1000)}; "
            f"correct the log or the config, or {how}, and run again."
        )


def checked_reports(
    staged: Mapping[str, Path],
    reports: Sequence[Report],
    facts: RunFacts,
    settings: CheckSettings,
    *,
    output_dir: Path,
    created_s: int,
    tables: Mapping[str, TableFacts],
) -> list[Report]:
    """The reports with that of the checks; HeldNightError where a check blocks, after the tables have been held.

    `tables` are the facts of the staged tables.
    """
    manifest = _manifest_or_none(output_dir)
    before, reason = version_before(manifest, facts.site)
    plain = [report.as_dict() for report in reports]
    night = Night(facts.code, staged, tables, report_facts(plain), created_s, before, reason)
    results = check_night(night, settings)
    everything = [*reports, checks_report(results)]
    if not failed(results, blocking=True):
        return everything
    folder = hold(
        staged, everything, facts, results,
        output_dir=output_dir, created_s=created_s, keep=settings.keep_held, tables=tables,
    )  # fmt: skip
    raise HeldNightError(results, folder, everything[-1])


def check_published(folder: Path, now_s: float) -> dict[str, Any]:
    """The checks of the published version, in plain values, with the settings of its run.

    `passed` is false where one that blocks has failed. InputError where nothing is published there.
    """
    with reading(folder) as manifest:
        before, reason = version_before(manifest, manifest.site, published=True)
        files = {name: manifest.path(name) for name in manifest.tables if name in TABLES}
        night = Night(manifest.code, files, facts_of(files), report_facts(manifest.reports), now_s, before, reason)
        results = check_night(night, _settings_of(manifest))
    return {
        "run_id": manifest.run_id,
        "site": manifest.site,
        "folder": manifest.folder,
        "compared_with": before.run_id if before else None,
        "not_compared": reason or None,
        "passed": not failed(results, blocking=True),
        "checks": plain_results(results),
    }


def checks_report(results: Sequence[CheckResult]) -> Report:
    """The checks as a report: passed, failed and skipped ones; a note for each that failed."""
    counts = {state: sum(result.state == state for result in results) for state in ("passed", "failed", "skipped")}
    set_aside = {state: Tally(counts[state]) for state in ("failed", "skipped") if counts[state]}
    notes = tuple(f"{_findings_text([result])}." for result in results if result.state == "failed")
    return Report(
        "checks", "check", Tally(len(results)), Tally(counts["passed"]), set_aside,
        {result.name: result.state for result in results}, notes,
    ).check()  # fmt: skip


def _findings_text(results: Sequence[CheckResult]) -> str:
    """The findings of failed checks in one line; further ones than the first few are counted."""
    parts = []
    for result in results:
        more = len(result.findings) - _FINDINGS_SHOWN
        shown = "; ".join(str(finding) for finding in result.findings[:_FINDINGS_SHOWN])
        parts.append(f"Check {result.name} failed: {shown}{f'; and {more} more' if more > 0 else ''}")
    return ". ".join(parts)


def _manifest_or_none(output_dir: Path) -> Manifest | None:
    try:
        return load_manifest(output_dir)
    except InputError:
        return None


def _settings_of(manifest: Manifest) -> CheckSettings:
    """The settings of checks that a run recorded; the defaults where it is of a release without checks."""
    plain = manifest.settings.get("checks")
    if plain is None:
        return RunSettings().checks
    return parse_settings({"checks": plain}, printable(str(manifest.root))).checks
