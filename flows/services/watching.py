"""What following a source does, round by round: the newest records, a State that knows them, and expected starts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from flows.services.files.os_errors import naming_path, os_failure
from flows.services.logs.ingesting import accumulated_jobs
from flows.services.published.published_folder import CONTINUES, continued, live_pointer, live_state
from flows.services.run.prepare import listed_paths
from flows.services.schedulers import SCHEDULERS
from flows.services.starts_table import note_starts
from pipeline.clean import clean
from pipeline.errors import ConfigError, InputError, WalltimeError, printable
from pipeline.estimate.stage import update_state
from pipeline.estimate.state import loaded_state
from pipeline.ingest import ingest
from pipeline.ingest.privacy import with_hashed_names
from pipeline.large_tables import StoredTable, parts_of
from pipeline.publish import load_manifest, reading
from pipeline.publish.store import acquire, new_table
from pipeline.settings import RunSettings
from pipeline.storage import read_table, write_table
from pipeline.tables import JOBS, STATE
from pipeline.version import code_version

LOOK_BACK_S = 14 * 86_400
"""How long before the State's time a job may have been submitted; longer ones wait for the nightly run."""

FOLLOWED = ("sacct", "folder")
"""Kinds of sources that grow."""
LONGEST_WAIT_S = 3_600.0
"""Longest wait after failures, unless the interval itself is longer."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round found: the jobs new to the State and those that it brought up to date."""

    number: int
    n_new: int
    n_open: int
    as_of_s: int
    run_id: str
    failure: str = ""
    """The sentence of a failed round; the next one tries again."""


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
    _number: int = 0
    n_failures: int = 0
    """Failed rounds in a row."""

    def __post_init__(self) -> None:
        kind = self.settings.source.kind
        if kind not in FOLLOWED:
            where, expected = printable(str(self.config)), f"source.kind = {' or '.join(FOLLOWED)}"
            raise ConfigError(where, f"source.kind = {kind}", expected, "name a source that grows")
        load_manifest(Path(self.settings.output_dir))

    def run_round(self, now_s: int) -> Round:
        """One round; where the source, the scheduler or the disk fails, the round says so and the next tries again."""
        self._number += 1
        try:
            found = self._round(now_s)
        except (WalltimeError, OSError) as error:
            self.n_failures += 1
            # What was read has come to nothing: the next round reads it again.
            self._seen = None
            sentence = str(os_failure(error) if isinstance(error, OSError) else error)
            return Round(self._number, 0, 0, 0, self._of_version.partition(" ")[0], sentence)
        self.n_failures = 0
        return found

    def wait_s(self, every_s: float) -> float:
        """The time until the next round: the interval, doubled with each failure in a row, at most an hour."""
        return min(every_s * 2.0 ** min(self.n_failures, 30), max(every_s, LONGEST_WAIT_S))

    def _round(self, now_s: int) -> Round:
        facts = self._update(now_s, is_forced=self._take_version())
        if self._tells_starts:
            note_starts(Path(self.settings.output_dir), SCHEDULERS[self.scheduler], self.environment, now_s)
        run_id = self._of_version.partition(" ")[0]
        return Round(self._number, facts["n_new"], facts["n_open"], facts["as_of_s"], run_id)

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
            table = self._seen = accumulated_jobs(settings, now_s).table
            return _later(table, first_s) if is_forced or table != before else None
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
            return {"n_new": 0, "n_open": 0, "as_of_s": int(as_of_s)}
        flagged, *_ = clean(jobs, with_hashed_names(self.settings).clean, self.settings.site)
        state, report = update_state(self._state, flagged)
        with new_table(live_pointer(Path(self.settings.output_dir))) as path:
            write_table(path, state, STATE, {CONTINUES: self._of_version, "code": code_version()})
        self._state = state
        return {name: int(report.facts[name] or 0) for name in ("n_new", "n_open", "as_of_s")}


def _later(table: Path, first_s: int) -> pa.Table:
    parts = parts_of(StoredTable(table, JOBS))
    return pa.concat_tables(
        [part.filter(pc.greater_equal(part["submit_s"], first_s)) for part in parts]
    ).unify_dictionaries()


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


def rounds(
    watch: Watch, every_s: float, now: Callable[[], float], is_stopped: Callable[[float], bool], *, once: bool
) -> Iterator[Round]:
    """The rounds of a watch until `is_stopped`, which waits that many seconds and says whether to end."""
    while True:
        found = watch.run_round(int(now()))
        yield found
        if once or is_stopped(watch.wait_s(every_s)):
            return
