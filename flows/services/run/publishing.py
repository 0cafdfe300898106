"""Publishes a run; the only module that knows both Run and publish."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipeline.core.report import Report
from pipeline.core.version import code_version
from pipeline.publish import RunFacts, publish
from pipeline.run import Run


def publish_run(
    run: Run, staged: Mapping[str, Path], reports: Sequence[Report], output_dir: Path, created_s: int
) -> Path:
    """Publish a run's staged tables; returns the path of the manifest."""
    facts = RunFacts(
        run_id=run.run_id,
        site=run.settings.site.name,
        settings=run.settings.model_dump(mode="json", exclude={"logs", "source", "output_dir"}),
        logs=list(zip(run.log_labels, run.log_digests, strict=True)),
        code=code_version(),
    )
    keep = run.settings.publish.keep_versions
    return publish(staged, reports, facts, output_dir=output_dir, created_s=created_s, keep_versions=keep)
