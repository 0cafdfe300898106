"""Goes through the steps of a run in this process and in memory, for tests, benchmarks and measurements."""

from collections.abc import Collection, Iterator, Mapping

from pipeline.large_tables import LargeTable
from pipeline.report import Report
from pipeline.run import STEP_TABLES, STEPS, Run, Step
from pipeline.settings import RunSettings


def run_plain(
    run: Run, given: Mapping[str, LargeTable] | None = None, wanted: Collection[str] = frozenset(STEP_TABLES)
) -> Iterator[tuple[Step, Mapping[str, LargeTable], Report]]:
    """Yields each step that the wanted tables need beside the given ones, with its tables and its checked report."""
    found = dict(given or {})
    missing, steps = set(wanted) - set(found), list[Step]()
    for step in reversed(STEPS):
        if missing.intersection(step.writes):
            steps.append(step)
            missing = (missing - set(step.writes)) | (set(step.reads) - set(found))
    for step in reversed(steps):
        *tables, report = step.call(run, *(found[name] for name in step.reads))
        written = dict(zip(step.writes, tables, strict=True))
        found |= written
        yield step, written, report.check()


def tables_of(settings: RunSettings, given: Mapping[str, LargeTable], *wanted: str) -> dict[str, LargeTable]:
    """The tables that a run would make of the given ones, up to the wanted ones, and the given ones."""
    made = (written for _, written, _ in run_plain(Run(settings, (), (), ()), given, wanted))
    return dict(given) | {name: table for written in made for name, table in written.items()}
