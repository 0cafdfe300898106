"""What `walltime doctor` does: it checks a store, named by its folder or by the config that publishes to it.

Each check takes a Store and yields findings; nothing is changed.
"""

import io
import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote
from urllib.request import Request, urlopen

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import config_settings
from flows.services.initialising import program_failure, site_slug
from flows.services.published.published_folder import live_pointer, read_columns
from flows.services.run.prepare import listed_paths
from flows.services.run.run_record import LAST_RUN, SERVED, SERVING, Reason, RunState, read_last_run
from pipeline.errors import InputError, printable
from pipeline.export.lookup_file import is_whole
from pipeline.export.lookup_reader import Lookup
from pipeline.export.scheduler_files import LOOKUP_FILE
from pipeline.ingest import in_window
from pipeline.ingest.sources import Source, compression_of
from pipeline.large_tables import StoredTable
from pipeline.limits.status import READ as OF_LIMITS
from pipeline.limits.status import planned_weeks
from pipeline.publish import Manifest
from pipeline.publish.manifest import MANIFEST, VERSIONS, TableEntry, read_manifest
from pipeline.publish.store import (
    LOCK,
    WORK,
    damage,
    find_step,
    holder_name,
    holder_of,
    is_held,
    kept_table,
    leftovers,
    step_folders,
)
from pipeline.publish.versions import stored_versions
from pipeline.report import parsed_json
from pipeline.settings import ExportSettings, RunSettings
from pipeline.storage import read_table
from pipeline.tables import JOBS, SET_LATER

HELD_TOO_LONG_S = 24 * 3600
"""A run that takes longer than the time between two nights stands in the way of the next one."""
SPARE_VERSIONS = 3
"""A run needs room for its work folder and its version; each takes about the bytes of the published version."""
API_TIMEOUT_S = 10
_CLOCK_SLACK_S = 300
_TRIES = 3


class Level(IntEnum):
    """How bad a finding is. A note needs nothing to be done."""

    NOTE = 0
    WARNING = 1
    ERROR = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, where, and what to do; the texts are escaped."""

    check: str
    level: Level
    where: str
    found: str
    do: str


@dataclass(frozen=True, slots=True)
class Store:
    """What the checks look at: a folder of published tables, its manifest, its config, the clock, the environment."""

    root: Path
    now_s: int
    max_age_s: int
    environment: Mapping[str, str]
    config: Path | None
    settings: RunSettings | None
    manifest: Manifest | None = None
    manifest_error: InputError | None = None


Found = tuple[Level, Path | str, str, str]
"""A finding without the name of its check."""
Check = Callable[[Store], Iterator[Found]]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The findings of all checks, in the order of the checks; `checked` names the checks that were made."""

    root: Path | None
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Level | None:
        """The highest level among the findings; None where there are none."""
        return max((finding.level for finding in self.findings), default=None)


def diagnose(
    target: Path, now_s: int, max_age_s: int, environment: Mapping[str, str] | None = None, *, is_deep: bool = False
) -> Diagnosis:
    """Check the store of `target`, a folder of published tables or a config; nothing is changed.

    `environment`: that of programs which a check calls. `is_deep`: also read every table of every version.
    InputError where the target does not exist.
    """
    if not target.exists():
        where = printable(str(target), 1000)
        raise InputError(where, "no such file or folder", "a folder of published tables, or a config", "check the path")
    root, config, settings = target, None, None
    if not target.is_dir():
        try:
            config, settings = target, config_settings(target)
        except InputError as error:
            return Diagnosis(None, ("config",), (_finding("config", of_error(error)),))
        root = Path(settings.output_dir)
    checks = {**CHECKS, **(DEEP_CHECKS if is_deep else {})}
    store, findings = Store(root, now_s, max_age_s, environment or {}, config, settings), list[Finding]()
    # A store that a run replaces meanwhile is checked again.
    for _ in range(_TRIES):
        before = _bytes(root / MANIFEST)
        try:
            seen = replace(store, manifest=read_manifest(root))
        except InputError as error:
            seen = replace(store, manifest_error=error)
        findings = [_finding(name, found) for name, check in checks.items() for found in check(seen)]
        if _bytes(root / MANIFEST) == before:
            break
    return Diagnosis(root, tuple(checks) if config is None else ("config", *checks), tuple(findings))


def _finding(check: str, one: Found) -> Finding:
    level, where, found, do = one
    return Finding(check, level, printable(str(where), 1000), found, do)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def of_error(error: InputError, level: Level = Level.ERROR) -> Found:
    """A finding made of an error's parts."""
    found = f"{error.found}, expected {error.expected}" if error.expected else error.found
    return level, error.where, found, error.do or "correct what was found"


def duration(seconds: int) -> str:
    """A duration in days and hours, hours and minutes, or minutes, rounded down."""
    days, hours, minutes = seconds // 86_400, seconds % 86_400 // 3600, seconds % 3600 // 60
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def check_logs(store: Store) -> Iterator[Found]:
    """The logs, the folder or the table that the config names can be opened."""
    if store.settings is None or store.config is None:
        return
    if store.settings.source.kind == "logs" and not store.settings.logs:
        yield Level.NOTE, store.config, "no logs in the config", "set logs in the config, or give --log to each run"
        return
    try:
        for path in listed_paths(store.settings, store.config) or ():
            compression_of(Source(path, str(path)))
            if not path.stat().st_size:
                yield Level.WARNING, path, "an empty file", "see that the export of the log works"
    except InputError as error:
        yield of_error(error)


def check_sacct(store: Store) -> Iterator[Found]:
    """Where the config's source is sacct: the program is there, and answers a question that needs no accounting."""
    if store.settings is None or store.config is None or store.settings.source.kind != "sacct":
        return
    named = store.settings.ingest.sacct_command
    found = shutil.which(named, path=store.environment.get("PATH"))
    if found is None:
        seen, do = f"no program {printable(named)}", "install Slurm's commands, or set ingest.sacct_command to its path"
    else:
        failure = program_failure([found, "--version"], store.environment)
        seen = f"{printable(found)} --version does not answer ({failure})" if failure else ""
        do = "call it in a terminal, and correct Slurm's installation"
    if seen:
        yield Level.ERROR, store.config, seen, do


def check_manifest(store: Store) -> Iterator[Found]:
    """There is a manifest, and it can be read."""
    path = store.root / MANIFEST
    if store.manifest_error is None:
        return
    if path.exists():
        yield of_error(store.manifest_error)
    else:
        yield Level.ERROR, path, "no published tables", "run `walltime run` with this folder"


def check_tables(store: Store) -> Iterator[Found]:
    """Every table that the manifest names has its bytes, its hash and its rows."""
    if store.manifest is None:
        return
    do = "run `walltime run` again: it publishes an intact version; then look for a failing disk"
    yield from _damaged(store.manifest, Level.ERROR, do)


def _damaged(manifest: Manifest, level: Level, do: str) -> Iterator[Found]:
    """A finding for each table of a version that is not as its manifest says."""
    for name, entry in manifest.tables.items():
        if problem := _problem(manifest.place(name), entry):
            yield level, manifest.place(name), problem, do


def _problem(path: Path, entry: TableEntry) -> str:
    try:
        if found := damage(path, entry.sha256, entry.bytes):
            return f"{found}, where the manifest says {entry.bytes} bytes and SHA-256 {entry.sha256[:24]}"
        rows = pq.read_metadata(path).num_rows
    except (OSError, pa.ArrowInvalid) as error:
        return f"a file that cannot be read ({printable(str(error), 160)})"
    return "" if rows == entry.rows else f"{rows:,} rows, where the manifest says {entry.rows:,}"


def check_live(store: Store) -> Iterator[Found]:
    """The files that the guard write beside the versions have the bytes that were written."""
    for pointer in sorted(live_pointer(store.root).parent.glob("[!.]*.json")):
        try:
            kept_table(pointer)
        except InputError as error:
            yield of_error(error, Level.WARNING)


def check_versions(store: Store) -> Iterator[Found]:
    """Earlier versions are there and are Parquet; version folders that the manifest does not name are reported."""
    if store.manifest is None:
        return
    versions = store.root / VERSIONS
    for entry in store.manifest.previous:
        folder = versions / entry.folder
        bad = [path for path in sorted(folder.glob("*.parquet")) if not _is_parquet(path)]
        do = "do not return to this version; the next runs remove it"
        if not folder.is_dir():
            yield Level.WARNING, folder, "no such folder, and the manifest names it", do
        for path in bad:
            yield Level.WARNING, path, "a file that is not a Parquet table", do
    for one in stored_versions(store.root):
        # A rerun has a name, and is never published unless somebody promotes it.
        if one.place is None and not one.name and not one.is_pinned:
            where, found = versions / one.folder, "a version that the manifest does not name"
            yield Level.NOTE, where, found, "remove it if nobody reads it"


def _is_parquet(path: Path) -> bool:
    try:
        pq.read_metadata(path)
    except (OSError, pa.ArrowInvalid):
        return False
    return True


def check_hashes(store: Store) -> Iterator[Found]:
    """Every table of every version on disk has its hash; the published version's tables have a check of their own."""
    do = "do not return to this version; see whether other files of this disk are damaged too"
    for one in stored_versions(store.root):
        if one.manifest is not None and one.place != 0:
            yield from _damaged(one.manifest, Level.WARNING, do)


def check_reruns(store: Store) -> Iterator[Found]:
    """A rerun over a window of the published version's logs has the jobs that that version has in the window."""
    for one in stored_versions(store.root):
        rerun = one.manifest
        if rerun is None or store.manifest is None or one.place is not None or rerun.to_s is None:
            continue
        if _is_like(rerun, store.manifest) and (n_differing := _n_differing(rerun, store.manifest)):
            found = (
                f"a rerun in which {n_differing:,} jobs differ from those of the published version in the same window"
            )
            do = "see whether the logs were rewritten, and rerun under another name"
            yield Level.WARNING, store.root / VERSIONS / one.folder, found, do


def _is_like(one: Manifest, other: Manifest) -> bool:
    """Whether two versions read the same logs in one way; the later one may have read more of each."""
    names = [[log.name for log in manifest.logs] for manifest in (one, other)]
    reading = [(m.site, m.code, m.settings.get("site"), m.settings.get("ingest")) for m in (one, other)]
    return names[0] == names[1] and reading[0] == reading[1]


def _n_differing(rerun: Manifest, published: Manifest) -> int:
    """How many jobs either has that the other has not, in the window of the rerun."""
    names = ", ".join(name for name in JOBS.schema().names if name not in (*SET_LATER, "source_file", "source_line"))
    try:
        window = in_window(StoredTable(published.path(JOBS.name), JOBS), (rerun.from_s, rerun.to_s))
        other = pa.concat_tables([JOBS.empty(), *(part.filter(pa.array(is_in)) for part, is_in in window)])
        own = read_table(rerun.path(JOBS.name), JOBS)
    except InputError:
        # A damaged table, which another check reports.
        return 0
    one, two = (f"(SELECT {names} FROM {table})" for table in ("own", "other"))  # noqa: S608 # nosec B608 # declared names
    with duckdb.connect() as database:
        database.register("own", own)
        database.register("other", other)
        query = f"SELECT count(*) FROM (({one} EXCEPT ALL {two}) UNION ALL ({two} EXCEPT ALL {one}))"  # noqa: S608 # nosec B608
        return int(database.execute(query).fetchall()[0][0])


def check_leftovers(store: Store) -> Iterator[Found]:
    """Drafts of runs that were killed; while a run is active they may be its own."""
    work = store.root / WORK
    if is_held(work) or is_held(store.root / VERSIONS) or not store.root.is_dir():
        return
    for path in [*leftovers(work), *leftovers(store.root / VERSIONS), *leftovers(store.root / MANIFEST)]:
        yield Level.NOTE, path, "a leftover of a run that was killed", "nothing: the next run removes it"
    known = {LOCK, *(path.name for path in leftovers(store.root / VERSIONS))}
    for path in sorted((store.root / VERSIONS).glob(".*")):
        if path.name not in known:
            yield Level.NOTE, path, "a hidden file or folder that Walltime did not make", "remove it if nobody uses it"


def check_work(store: Store) -> Iterator[Found]:
    """The finished steps in the work folder have the hashes that were written with them."""
    work = store.root / WORK
    if is_held(work) or not work.is_dir():
        return
    for name in sorted(step_folders(work)):
        if find_step(work / name) is None:
            found, do = "a finished step whose files are damaged", "nothing: the next run computes it again"
            yield Level.NOTE, work / name, found, do


def check_lock(store: Store) -> Iterator[Found]:
    """Whether a run is active, who it is, and whether it takes too long."""
    work = store.root / WORK
    holder = holder_of(work)
    if not is_held(work):
        if holder is None and _bytes(work / LOCK):
            found = "a lock file with unknown content, which no process holds"
            yield Level.NOTE, work / LOCK, found, "nothing: the next run overwrites it"
        return
    age_s = store.now_s - holder.since_s if holder else 0
    named = holder_name(holder)
    if holder and age_s > HELD_TOO_LONG_S:
        do = f"look at process {holder.pid} on {printable(holder.host)}, and end it if it hangs: the lock ends with it"
        yield Level.WARNING, work, f"a run for {duration(age_s)}: {named}", do
    else:
        yield Level.NOTE, work, f"a run in progress: {named}", "wait for its end"


def check_last_run(store: Store) -> Iterator[Found]:
    """The last run ended well: what `walltime run` and `walltime serve` record, whoever has started it."""
    last = read_last_run(store.root)
    if last is None or last.state in (RunState.RUNNING, RunState.SUCCEEDED):
        return
    ended_s = int(last.ended_s if last.ended_s is not None else last.began_s)
    when = f"{duration(max(0, store.now_s - ended_s))} ago"
    run = "run `walltime run` in a terminal"
    reasons: dict[str, tuple[str, str]] = {
        Reason.BLOCKED: ("a check blocked its version", "see `doctor --checks`; mend the log or [checks], run again"),
        Reason.CONFIG: ("the config is wrong", f"{run}: it says which setting"),
        Reason.FAULT: ("because of a fault in Walltime", f"{run}, and report what it says"),
        Reason.SIGNAL: (f"it was {last.state}", "run again; if it is killed again, give it more memory"),
    }
    why, do = reasons.get(last.reason, (f"reason {printable(last.reason)}", f"{run}: it says why"))
    level = Level.WARNING if last.reason == Reason.SIGNAL else Level.ERROR
    yield level, store.root / LAST_RUN, f"the last run failed {when}: {why}; earlier tables stay", do


def check_serving(store: Store) -> Iterator[Found]:
    """Where the site is served under Prefect: the command runs, its server answers, and has its automations."""
    folder = store.root / SERVING
    try:
        served = parsed_json((folder / SERVED).read_text(encoding="utf-8"))
        name, api = str(served["name"]), str(served["api"])
    except (OSError, ValueError, TypeError, KeyError):
        return
    if not is_held(folder):
        do = f"start it (`systemctl start walltime-{name}-serve`), or remove this folder if the site is not served"
        yield Level.WARNING, folder, "`walltime serve` does not run, as it did for this site", do
    title = f"Walltime {name}: killed run"
    asked = json.dumps({"automations": {"name": {"any_": [title]}}}).encode()
    headers = {"content-type": "application/json"}
    if secret := store.environment.get("PREFECT_API_AUTH_STRING"):
        headers["authorization"] = f"Basic {b64encode(secret.encode()).decode()}"
    try:
        request = Request(f"{api}/automations/filter", asked, headers)  # noqa: S310 - the address that is served
        with urlopen(request, timeout=API_TIMEOUT_S) as answer:  # noqa: S310 # nosec B310
            is_made = bool(json.loads(answer.read()))
    except (OSError, ValueError):
        do = "start it (`systemctl start walltime-prefect`); until then nights run without it, and are reported later"
        yield Level.WARNING, api, "Prefect's API does not answer", do
        return
    if not is_made:
        found = f"no automation {title!r}: killed runs stay Running"
        yield Level.WARNING, api, found, "restart `walltime serve`, which makes it"


def check_guard(store: Store) -> Iterator[Found]:
    """Where the scheduler gets limits of ours: the guard runs, which gives jobs more time before their limits."""
    if store.settings is None or store.settings.export.mode != "limit":
        return
    folder = live_pointer(store.root).parent
    if not is_held(folder):
        name = site_slug(store.settings.site.name)
        do = f"start it where slurmctld runs (`systemctl start walltime-{name}-guard`), or set export.mode to off"
        yield Level.WARNING, folder, "no guard runs, and export.mode is limit", do


def check_lookup(store: Store) -> Iterator[Found]:
    """The look-up files of a scheduler on this machine are intact, and as new as the published tables."""
    slurm_conf = store.environment.get("SLURM_CONF") or "/etc/slurm/slurm.conf"
    pbs_home = store.environment.get("PBS_HOME") or "/var/spool/pbs"
    yield from _check_lookup(store, Path(slurm_conf).with_name(LOOKUP_FILE), "slurm")
    yield from _check_lookup(store, Path(pbs_home, "server_priv", LOOKUP_FILE), "openpbs")


def _check_lookup(store: Store, path: Path, scheduler: str) -> Iterator[Found]:
    content = _bytes(path)
    if content is None or store.manifest is None:
        return
    do = f"run `walltime export --for {scheduler}` and install its files again"
    if not is_whole(content):
        yield Level.WARNING, path, "a look-up file that is damaged or of another release", do
        return
    lookup = Lookup(io.BytesIO(content))
    if unquote(lookup.facts["site"]) == store.manifest.site:
        age_s = (store.manifest.data_newest_end_s or 0) - lookup.newest_end_s
        if age_s > store.max_age_s:
            found = f"a look-up file whose newest job is {duration(age_s)} older than that of the published tables"
            yield Level.WARNING, path, found, do


def check_space(store: Store) -> Iterator[Found]:
    """The disk has room for the next run."""
    if not store.root.is_dir():
        return
    free = shutil.disk_usage(store.root).free
    size = sum(entry.bytes for entry in store.manifest.tables.values()) if store.manifest else 0
    needed = SPARE_VERSIONS * size
    if free < needed or free == 0:
        level = Level.ERROR if free < size or free == 0 else Level.WARNING
        found = f"{free / 2**20:,.1f} MiB free; the next run may need {needed / 2**20:,.1f} MiB"
        do = "free some space, or lower publish.keep_versions"
        yield level, store.root, found, do


def check_permissions(store: Store) -> Iterator[Found]:
    """The folders of the store can be written, and the manifest can be read."""
    folders = [path for path in (store.root, store.root / VERSIONS, store.root / WORK) if path.is_dir()]
    for folder in folders:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            yield Level.ERROR, folder, "a read-only disk", "make the disk writable, or choose another output_dir"
            return
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            found = f"a folder that this user (id {os.getuid()}) may not write"
            do = "run as the user that publishes, or change the folder's owner or mode"
            yield Level.ERROR, folder, found, do


def check_age(store: Store) -> Iterator[Found]:
    """The published version is not too old, is not dated in the future, and later versions have later dates."""
    manifest = store.manifest
    if manifest is None:
        return
    path, age_s = store.root / MANIFEST, store.now_s - manifest.created_s
    if age_s > store.max_age_s:
        found = f"tables made {duration(age_s)} ago; at most {duration(store.max_age_s)} is expected"
        yield Level.WARNING, path, found, "see why the last runs failed or did not start, and run again"
    if age_s < -_CLOCK_SLACK_S:
        found = f"tables dated {duration(-age_s)} in the future"
        yield Level.WARNING, path, found, "correct the clock of this machine; the tables are intact"
    if _went_back(manifest):
        found = "a version published before the one that it replaced: the clock went backwards"
        yield Level.NOTE, path, found, "nothing: versions are kept in the order of publication"


def _went_back(manifest: Manifest) -> bool:
    """Whether a publication is dated before an earlier one, or before the making of the version that it replaced.

    When a version was made says nothing by itself: one of the same logs is published again as it is.
    """
    entries = manifest.previous
    ends = [entry.until_s or entry.created_s for entry in entries]
    published_s = manifest.published_s or manifest.created_s
    return any(entry.created_s > end_s for entry, end_s in zip(entries, ends, strict=True)) or any(
        later < earlier for later, earlier in pairwise([published_s, *ends])
    )


def check_limits(store: Store) -> Iterator[Found]:
    """No job was ended at a limit of ours before its request."""
    if store.manifest is None or JOBS.name not in store.manifest.tables:
        return
    weeks = planned_weeks(read_columns(store.manifest.path(JOBS.name), JOBS, OF_LIMITS))
    n_ended = sum(row["n_ended"] for row in weeks)
    if n_ended:
        found = f"{n_ended:,} jobs that Slurm ended at a limit below their requests, the last in the week of "
        found += next(row["week"] for row in weeks if row["n_ended"])
        do = "see whether the guard runs, and its log; until then set export.mode to off"
        yield Level.WARNING, store.root, found, do


def check_names(store: Store) -> Iterator[Found]:
    """The log knows whom `[export]` names, in `opt_out` and in `opt_in`."""
    manifest = store.manifest
    # A site with hashed names has plain ones in its config.
    if manifest is None or JOBS.name not in manifest.tables or manifest.settings.get("site", {}).get("anonymise"):
        return
    plain = manifest.settings.get("export", {})
    export = store.settings.export if store.settings else ExportSettings.model_validate(plain)
    places = ("partition", "queue")
    for setting, names, columns in (
        ("opt_out.users", export.opt_out.users, ("user",)),
        ("opt_out.accounts", export.opt_out.accounts, ("account",)),
        ("opt_out.partitions", export.opt_out.partitions, places),
        ("opt_in", export.opt_in, ("user", "account", *places)),
    ):
        if unknown := sorted(set(names) - (_values(manifest, columns) if names else set())):
            found = (
                f"export.{setting} names {printable(', '.join(unknown), 400)}, and no job of the log has such a name"
            )
            where = store.config or store.root / MANIFEST
            yield Level.WARNING, where, found, "correct the name, or leave it if such jobs are expected later"


def _values(manifest: Manifest, columns: Sequence[str]) -> set[str]:
    """The texts in columns of JOBS; none where the file is damaged, which another check reports."""
    try:
        table = read_columns(manifest.place(JOBS.name), JOBS, columns)
    except InputError:
        return set()
    return {text for name in columns for text in table[name].unique().to_pylist() if text is not None}


CHECKS: Mapping[str, Check] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_logs, check_sacct, check_manifest, check_tables, check_live, check_versions, check_leftovers, check_work,
        check_lock, check_last_run, check_serving, check_guard, check_lookup, check_space, check_permissions, check_age,
        check_limits, check_names,
    )
}  # fmt: skip
"""Every check by its name, in the order in which findings are listed."""

DEEP_CHECKS: Mapping[str, Check] = {"hashes": check_hashes, "reruns": check_reruns}
"""Checks that read whole files of all versions, which may take minutes."""
