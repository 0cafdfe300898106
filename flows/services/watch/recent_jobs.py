"""The jobs that a source knows and a State may not: those submitted some time before the State's time, and since."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from flows.services.logs.accumulated_jobs import accumulated_jobs
from flows.services.run.prepare import listed_paths
from pipeline.core.errors import ConfigError
from pipeline.core.settings import RunSettings
from pipeline.core.store import read_batches
from pipeline.core.tables import JOBS
from pipeline.core.text import printable
from pipeline.ingest import ingest

LOOK_BACK_S = 14 * 86_400
"""How long before the State's time a job may have been submitted; longer ones wait for the nightly run."""

FOLLOWED = ("sacct", "folder")


@dataclass(slots=True)
class Follower:
    """Follows a source: gives its recent jobs where it has changed since the reading before."""

    settings: RunSettings
    config: Path
    _seen: object = field(default=None)

    def __post_init__(self) -> None:
        kind = self.settings.source.kind
        if kind not in FOLLOWED:
            where, expected = printable(str(self.config)), f"source.kind = {' or '.join(FOLLOWED)}"
            raise ConfigError(where, f"source.kind = {kind}", expected, "name a source that grows")

    def forget(self) -> None:
        """What was read last has come to nothing: the next reading gives it again."""
        self._seen = None

    def recent_jobs(self, since_s: float, now_s: int, *, is_forced: bool) -> pa.Table | None:
        """JOBS submitted within LOOK_BACK_S before `since_s` or later; None where nothing has changed.

        `is_forced` gives them also where nothing has changed. InputError where the source cannot be read.
        """
        first_s = int(since_s) - LOOK_BACK_S
        if self.settings.source.kind == "sacct":
            table = accumulated_jobs(self.settings, now_s).table
            is_new, self._seen = table != self._seen, table
            return _later(table, first_s) if is_new or is_forced else None
        paths = _changed_since(listed_paths(self.settings, self.config) or [], first_s)
        # A file that grows has another size, whatever its clock says.
        marks = [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        is_new, self._seen = marks != self._seen, marks
        if not paths or not (is_new or is_forced):
            return None
        jobs, _, _ = ingest(paths, self.settings.site, self.settings.ingest)
        return jobs.filter(pc.greater_equal(jobs["submit_s"], first_s))


def _later(table: Path, first_s: int) -> pa.Table:
    batches = [batch.filter(pc.greater_equal(batch["submit_s"], first_s)) for batch in read_batches(table, JOBS)]
    return pa.concat_tables([JOBS.empty(), *batches]).unify_dictionaries()


def _changed_since(paths: Sequence[Path], first_s: int) -> list[Path]:
    return [path for path in paths if path.stat().st_mtime >= first_s]
