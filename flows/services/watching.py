"""What following a source does, round by round: the newest records, a State that knows them, and expected starts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from flows.services.files.os_errors import naming_path
from flows.services.logs.ingesting import accumulated_jobs
from flows.services.published.published_folder import CONTINUES, continued, live_pointer, live_state
from flows.services.run.prepare import listed_paths
from flows.services.schedulers import SCHEDULERS
from flows.services.when import note_starts
from pipeline.clean import clean
from pipeline.errors import InputError, WalltimeError, printable
from pipeline.estimate.stage import update_state
from pipeline.estimate.state import loaded_state
from pipeline.ingest import ingest
from pipeline.ingest.privacy import with_hashed_names
from pipeline.large_tables import StoredTable, parts_of
from pipeline.publish import reading
from pipeline.publish.store import acquire, new_table
from pipeline.settings import RunSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS, STATE
from pipeline.version import code_version

LOOK_BACK_S = 14 * 86_400
"""How long before the State's time a job may have been submitted; longer ones wait for the nightly run."""

FOLLOWED = ("sacct", "folder")
"""Kinds of sources that grow."""


@dataclass(slots=True)
class Watch:
    """A watch over one config's source; `run_round` is to be called again and again."""

    settings: RunSettings
    config: Path
    scheduler: str
    environment: Mapping[str, str]
    _seen: object = None
    """What the source held when it was read last."""
    _state: pa.Table | None = None
    _of_version: str = ""
    _tells_starts: bool = False
    """Whether the version has the jobs that expected starts rest on."""

    def run_round(self, now_s: int) -> dict[str, int]:
        """Read what is new: `n_new` jobs are new to the State, `n_open` ones have been brought up to date.

        WalltimeError or OSError where the source, the scheduler or the disk fails; the next round then reads it again.
        """
        try:
            facts = self._update(now_s, is_forced=self._take_version())
            if self._tells_starts:
                note_starts(Path(self.settings.output_dir), SCHEDULERS[self.scheduler], self.environment, now_s)
        except (WalltimeError, OSError):
            self._seen = None
            raise
        return facts

    def _take_version(self) -> bool:
        """Continue from the published version where it is another one, or from the live State that continues it."""
        with reading(Path(self.settings.output_dir)) as manifest:
            if continued(manifest) == self._of_version:
                return False
            path = live_state(manifest) or manifest.path(STATE.name)
            self._state, self._of_version = read_table(path, STATE), continued(manifest)
            self._tells_starts = JOBS.name in manifest.tables
        if manifest.code != code_version():
            # Its settings and its format are checked, so that an older version fails in a sentence.
            loaded_state(self._state, printable(str(path)))
        return True

    def _recent_jobs(self, first_s: int, now_s: int, *, is_forced: bool) -> pa.Table | None:
        """JOBS of the source submitted at `first_s` or later; None where nothing has changed, unless forced.

        InputError where the source cannot be read.
        """
        before, settings = self._seen, self.settings
        if settings.source.kind == "sacct":
            table = self._seen = accumulated_jobs(settings, now_s)
            if table == before and not is_forced:
                return None
            parts = parts_of(StoredTable(table, JOBS))
            later = [part.filter(pc.greater_equal(part["submit_s"], first_s)) for part in parts]
            return pa.concat_tables(later).unify_dictionaries()
        listed = listed_paths(settings, self.config) or []
        paths = [path for path in listed if path.stat().st_mtime >= first_s]
        # A file that grows has another size, whatever its clock says.
        marks = self._seen = [(path, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
        if not paths or not (is_forced or marks != before):
            return None
        jobs, _, _ = ingest(paths, settings.site, settings.ingest)
        return jobs.filter(pc.greater_equal(jobs["submit_s"], first_s))

    def _update(self, now_s: int, *, is_forced: bool) -> dict[str, int]:
        assert self._state is not None  # nosec B101 # for the type checker
        row = self._state.column("array").to_pylist().index("as_of_s")
        as_of_s = float(self._state.column("floats")[row].as_py()[0])
        jobs = self._recent_jobs(int(as_of_s) - LOOK_BACK_S, now_s, is_forced=is_forced)
        if jobs is None or not jobs.num_rows:
            return {"n_new": 0, "n_open": 0}
        flagged, *_ = clean(jobs, with_hashed_names(self.settings).clean, self.settings.site)
        state, report = update_state(self._state, flagged)
        with new_table(live_pointer(Path(self.settings.output_dir))) as path:
            write_table(path, state, STATE, {CONTINUES: self._of_version, "code": code_version()})
        self._state = state
        return {name: int(report.facts[name] or 0) for name in ("n_new", "n_open")}


@contextmanager
def watching_alone(output_dir: Path) -> Iterator[None]:
    """Hold the watch over a folder; InputError where another process has it. A lock ends with its process."""
    folder = live_pointer(output_dir).parent
    with naming_path(folder):
        handle = acquire(folder)
    if handle is None:
        found = "another watch over it"
        raise InputError(printable(str(folder)), found, "one for each folder", "stop the other one first")
    with handle:
        yield
