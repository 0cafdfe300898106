"""What `walltime clean` does with a table of jobs: flags, bursts, the effect of leaving them out."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flows.services.files.os_errors import config_settings
from flows.services.files.table_files import scratch_folder, write_any, write_any_batches, write_page
from flows.services.logs import jobs_of_table
from pipeline.clean import BURST_FLAGS, clean
from pipeline.ingest.privacy import with_hashed_names
from pipeline.report import Report
from pipeline.schema import Flag
from pipeline.settings import RunSettings, SiteSettings
from pipeline.storage import read_metadata
from pipeline.tables import BURSTS, EFFECT, JOBS


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A cleaned log: flagged jobs, bursts, effect of the flags, report, settings and source."""

    jobs: pa.Table
    bursts: pa.Table
    effect: pa.Table
    report: Report
    settings: RunSettings
    source: Path

    @property
    def title(self) -> str:
        """The first cluster of the jobs, or the file's name where no cluster is named."""
        sites = sorted({*self.jobs.column("site").unique().to_pylist()} - {SiteSettings().name})
        return str(sites[0]) if sites else self.source.name

    def burst_rows(self) -> list[dict[str, Any]]:
        """BURSTS in plain values: removed bursts first, then suspects, each in falling order of prominence.

        Added to its columns: outcome, which says what the site's own rules left of the burst.
        """
        flags = defaultdict[str, set[str | None]](set)
        for row in self.jobs.select(["burst_id", "flag"]).group_by(["burst_id", "flag"]).aggregate([]).to_pylist():
            flags[row["burst_id"]].add(row["flag"])
        rows = [row | {"outcome": _outcome(row["tier"], flags[row["burst_id"]])} for row in self.bursts.to_pylist()]

        def rank(row: Mapping[str, Any]) -> tuple[bool, float, int, str]:
            # Probes and timers run through the whole log and have no machine-weeks.
            ahead = float("inf") if row["machine_weeks"] is None else row["machine_weeks"]
            return row["tier"] != "remove", -ahead, -row["n_jobs"], row["burst_id"]

        return sorted(rows, key=rank)


def _outcome(tier: str, flags: Collection[str | None]) -> str:
    """Jobs of a burst to remove have no flag only where a rule keeps them or the flag is turned off."""
    if tier == "remove":
        own = {str(flag) for flag in BURST_FLAGS.values()}
        return "set aside" if None not in flags else "kept in part" if own & set(flags) else "kept by rule"
    return "suspect" if str(Flag.SITE_DROP) not in flags else "dropped in part" if None in flags else "dropped by rule"


def clean_jobs(path: Path, config: Path | None) -> Cleaned:
    """Clean a table of jobs with a config's settings or the defaults; InputError where it is no table of jobs."""
    settings = with_hashed_names(config_settings(config)) if config else RunSettings()
    jobs, bursts, effect, report = clean(jobs_of_table(path), settings.clean, settings.site)
    return Cleaned(jobs, bursts, effect, report.check(), settings, path)


def write_cleaned(cleaned: Cleaned, out: Path, report: Path | None, page: str) -> dict[str, Path]:
    """Write the tables and the page, if any: first all to a scratch folder, then each to its place."""
    tables = {BURSTS: cleaned.bursts, EFFECT: cleaned.effect}
    paths = {kind.name: out.with_name(f"{out.stem}.{kind.name}{out.suffix}") for kind in tables}
    with scratch_folder(out) as scratch:
        # Without the entries that writing adds.
        added = ("table", "ARROW:schema")
        metadata = {name: text for name, text in read_metadata(cleaned.source).items() if name not in added}
        write_any_batches(scratch / out.name, [cleaned.jobs], JOBS, metadata)
        for kind, table in tables.items():
            write_any(scratch / paths[kind.name].name, table, kind)
        if report is not None:
            write_page(report, page)
        # The jobs come last, so that a reader who finds them also finds the tables beside them.
        for path in (*paths.values(), out):
            (scratch / path.name).replace(path)
    return {JOBS.name: out} | paths | ({} if report is None else {"page": report})
