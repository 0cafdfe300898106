"""Publishes a run; the only module that knows both Run and publish."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from flows.services.run.checking import checked_reports
from pipeline.core.report import Report
from pipeline.core.settings import PublishSettings
from pipeline.core.version import code_version
from pipeline.publish import Retention, RunFacts, publish, table_facts
from pipeline.run import Run


def publish_run(
    run: Run, staged: Mapping[str, Path], reports: Sequence[Report], output_dir: Path, created_s: int
) -> Path:
    """Check and publish a run's staged tables; returns the manifest's path. HeldNightError where a check blocks."""
    facts, settings, tables = facts_of(run), run.settings.publish, table_facts.facts_of(staged)
    reports = checked_reports(
        staged, reports, facts, run.settings.checks, output_dir=output_dir, created_s=created_s, tables=tables
    )
    return publish(
        staged,
        reports,
        facts,
        output_dir=output_dir,
        created_s=created_s,
        retention=retention_of(settings),
        tables=tables,
    )


def retention_of(settings: PublishSettings) -> Retention:
    """Which versions stay on disk, as the settings say."""
    ages = settings.model_dump(exclude={"keep_versions"})
    return Retention(newest=settings.keep_versions, **ages)


def facts_of(run: Run, name: str = "") -> RunFacts:
    """What the manifest says about a run; `name` is what a user called it."""
    return RunFacts(
        run_id=run.run_id,
        site=run.settings.site.name,
        settings=run.settings.model_dump(mode="json", exclude={"logs", "source", "output_dir", "run"}),
        logs=list(zip(run.log_labels, run.log_digests, strict=True)),
        code=code_version(),
        name=name,
        window_s=run.window_s,
    )
