"""What `walltime doctor` does: it checks a store, named by its folder or by the config that publishes to it.

Each check takes a Site and yields what it found, by the names of findings.tsv, which has their levels and sentences.
Nothing is changed.
"""

import io
import json
import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.parquet as pq

from flows.services.files.os_errors import config_settings
from flows.services.initialising import program_failure, site_slug
from flows.services.limits import limit_facts
from flows.services.logs import listed_paths
from flows.services.published.published_folder import live_pointer
from flows.services.run_record import LAST_RUN, SERVED, SERVING, read_last_run
from pipeline.errors import InputError, printable
from pipeline.export.lookup_file import is_whole
from pipeline.export.lookup_reader import Lookup
from pipeline.export.scheduler_files import LOOKUP_FILE
from pipeline.ingest.sources import Source, compression_of
from pipeline.publish import Manifest, checks, load_manifest, store
from pipeline.publish.manifest import MANIFEST, VERSIONS, read_manifest
from pipeline.publish.versions import stored_versions
from pipeline.report import parsed_json
from pipeline.settings import RunSettings, parse_settings
from pipeline.tables import TABLES

HELD_TOO_LONG_S = 24 * 3600
"""A run that takes longer than the time between two nights stands in the way of the next one."""
SPARE_VERSIONS = 3
"""A run needs room for its work folder and its version; each takes about the bytes of the published version."""
API_TIMEOUT_S = 10
LEVELS = ("note", "warning", "error")
"""How bad a finding is, in rising order. A note needs nothing to be done."""
_CLOCK_SLACK_S = 300


class Site(NamedTuple):
    """What the checks look at: what was named, the folder of published tables, the clock, the environment."""

    target: Path
    root: Path
    settings: RunSettings | None
    """Those of the config, where one was named."""
    now_s: int
    max_age_s: int
    environment: Mapping[str, str]
    is_deep: bool

    @property
    def manifest(self) -> Manifest:
        """The published version; InputError where there is none, or it cannot be read."""
        return read_manifest(self.root)


Found = tuple[str, Path | str, dict[str, Any]]
"""The name of a finding of the check, where it is, and the values in its sentences, which are escaped."""


def diagnose(
    target: Path, now_s: int, max_age_s: int, environment: Mapping[str, str] | None = None, *, is_deep: bool = False
) -> dict[str, Any]:
    """Check the store of `target`, a folder of published tables or a config; nothing is changed.

    The answer has the names of the checks, their findings (check, level, where, found, do), and the worst level, None
    where there is no finding. `environment`: that of programs which a check calls. `is_deep`: also read every table of
    every version. InputError where the target does not exist.
    """
    if not target.exists():
        where = printable(str(target), 1000)
        raise InputError(where, "no such file or folder", "a folder of published tables, or a config", "check the path")
    settings, checked = None, [name for name in CHECKS if name != "config" or not target.is_dir()]
    if not target.is_dir():
        try:
            settings = config_settings(target)
        except InputError:
            checked = ["config"]
    root = Path(settings.output_dir) if settings else target
    site, before = Site(target, root, settings, now_s, max_age_s, environment or {}, is_deep), _bytes(root / MANIFEST)
    findings = [one for name in checked for one in _findings(name, site)]
    if _bytes(root / MANIFEST) != before:
        # A run has replaced the version meanwhile.
        return diagnose(target, now_s, max_age_s, environment, is_deep=is_deep)
    worst = max((one["level"] for one in findings), key=LEVELS.index, default=None)
    return {
        "output_dir": None if checked == ["config"] else root, "worst": worst, "checked": checked, "findings": findings,
    }  # fmt: skip


def _findings(check: str, site: Site) -> Iterator[dict[str, Any]]:
    """What a check finds; an error of a file is left to the check that has a sentence on it."""
    for name, where, values in _found_by(check, site):
        if sentences := _sentences().get((check, name)):
            level, *texts = sentences
            found, do = (text.format(**values) for text in texts)
            yield {"check": check, "level": level, "where": printable(str(where), 1000), "found": found, "do": do}


def _found_by(check: str, site: Site) -> Iterator[Found]:
    try:
        yield from CHECKS[check](site)
    except InputError as error:
        found = f"{error.found}, expected {error.expected}" if error.expected else error.found
        yield "unusable", error.where, {"found": found, "do": error.do or "correct what was found"}


@cache
def _sentences() -> dict[tuple[str, str], list[str]]:
    """By check and finding its level, what was found, and what to do."""
    lines = Path(__file__).with_name("findings.tsv").read_text("utf-8").splitlines()[1:]
    return {(check, name): rest for check, name, *rest in (line.split("\t") for line in lines)}


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def check_config(site: Site) -> Iterator[Found]:
    """The config can be read, and has no wrong setting."""
    config_settings(site.target)
    return iter(())


def check_logs(site: Site) -> Iterator[Found]:
    """The logs, the folder or the table that the config names can be opened."""
    if site.settings is None:
        return
    if site.settings.source.kind == "logs" and not site.settings.logs:
        yield "none_named", site.target, {}
        return
    for path in listed_paths(site.settings, site.target) or ():
        compression_of(Source(path, str(path)))
        if not path.stat().st_size:
            yield "empty", path, {}


def check_sacct(site: Site) -> Iterator[Found]:
    """Where the config's source is sacct: the program is there, and answers a question that needs no accounting."""
    if site.settings is None or site.settings.source.kind != "sacct":
        return
    named = site.settings.ingest.sacct_command
    program = shutil.which(named, path=site.environment.get("PATH"))
    if program is None:
        yield "absent", site.target, {"program": printable(named)}
    elif failure := program_failure([program, "--version"], site.environment):
        yield "silent", site.target, {"program": printable(program), "failure": failure}


def check_manifest(site: Site) -> Iterator[Found]:
    """There is a manifest, and it can be read."""
    path = site.root / MANIFEST
    if not path.exists() or not site.manifest:
        yield "absent", path, {}


def check_tables(site: Site) -> Iterator[Found]:
    """Every table that a manifest names has its bytes, its hash and its rows: the published one's, or all versions'."""
    of_versions = [("damaged", site.manifest)]
    if site.is_deep:
        others = (one.manifest for one in stored_versions(site.root) if one.place != 0)
        of_versions += [("damaged_earlier", manifest) for manifest in others if manifest is not None]
    for finding, manifest in of_versions:
        for name, entry in manifest.tables.items():
            path, problem = manifest.place(name), ""
            try:
                if found := store.damage(path, entry.sha256, entry.bytes):
                    problem = f"{found}, where the manifest says {entry.bytes} bytes and SHA-256 {entry.sha256[:24]}"
                elif (rows := pq.read_metadata(path).num_rows) != entry.rows:
                    problem = f"{rows:,} rows, where the manifest says {entry.rows:,}"
            except (OSError, pa.ArrowInvalid) as error:
                problem = f"a file that cannot be read ({printable(str(error), 160)})"
            if problem:
                yield finding, path, {"problem": problem}


def check_live(site: Site) -> Iterator[Found]:
    """The files that the guard writes beside the versions have the bytes that were written."""
    for pointer in sorted(live_pointer(site.root).parent.glob("[!.]*.json")):
        store.kept_table(pointer)
    return iter(())


def check_versions(site: Site) -> Iterator[Found]:
    """Earlier versions are there; version folders that the manifest does not name are reported."""
    versions = site.root / VERSIONS
    for entry in site.manifest.previous:
        folder = versions / entry.folder
        if not folder.is_dir():
            yield "lost", folder, {}
    for one in stored_versions(site.root):
        # A rerun has a name, and is never published unless somebody promotes it.
        if one.place is None and not one.name and not one.is_pinned:
            yield "unnamed", versions / one.folder, {}


def check_leftovers(site: Site) -> Iterator[Found]:
    """Drafts of runs that were killed; while a run is active they may be its own."""
    work, versions = site.root / store.WORK, site.root / VERSIONS
    if store.is_held(work) or store.is_held(versions) or not site.root.is_dir():
        return
    drafts = [path for place in (work, versions, site.root / MANIFEST) for path in store.leftovers(place)]
    yield from (("draft", path, {}) for path in drafts)
    hidden = [path for path in sorted(versions.glob(".*")) if path.name != store.LOCK and path not in drafts]
    yield from (("hidden", path, {}) for path in hidden)


def check_lock(site: Site) -> Iterator[Found]:
    """Whether a run is active, who it is, and whether it takes too long."""
    work = site.root / store.WORK
    holder = store.holder_of(work)
    if not store.is_held(work):
        return
    named = {"holder": str(holder)}
    if holder.pid and site.now_s - holder.since_s > HELD_TOO_LONG_S:
        age = timedelta(seconds=site.now_s - holder.since_s)
        yield "held_long", work, named | {"age": age, "pid": holder.pid, "host": printable(holder.host)}
    else:
        yield "held", work, named


def check_last_run(site: Site) -> Iterator[Found]:
    """The last run ended well: what `walltime run` and `walltime serve` record, whoever has started it."""
    last = read_last_run(site.root)
    if last is None or last.state in ("running", "succeeded"):
        return
    ended_s = int(last.ended_s if last.ended_s is not None else last.began_s)
    when = f"{timedelta(seconds=max(0, site.now_s - ended_s))} ago"
    name = last.reason if ("last_run", last.reason) in _sentences() else "other"
    yield name, site.root / LAST_RUN, {"when": when, "state": last.state, "reason": printable(last.reason)}


def check_serving(site: Site) -> Iterator[Found]:
    """Where the site is served under Prefect: the command runs, its server answers, and has its automations."""
    folder = site.root / SERVING
    try:
        served = parsed_json((folder / SERVED).read_text(encoding="utf-8"))
        name, api = str(served["name"]), str(served["api"])
    except (OSError, ValueError, TypeError, KeyError):
        return
    if not store.is_held(folder):
        yield "stopped", folder, {"name": name}
    title = f"Walltime {name}: killed run"
    asked = json.dumps({"automations": {"name": {"any_": [title]}}}).encode()
    headers = {"content-type": "application/json"}
    if secret := site.environment.get("PREFECT_API_AUTH_STRING"):
        headers["authorization"] = f"Basic {b64encode(secret.encode()).decode()}"
    try:
        request = Request(f"{api}/automations/filter", asked, headers)  # noqa: S310 - the address that is served
        with urlopen(request, timeout=API_TIMEOUT_S) as answer:  # noqa: S310 # nosec B310
            is_made = bool(json.loads(answer.read()))
    except (OSError, ValueError):
        yield "no_api", api, {}
        return
    if not is_made:
        yield "no_automation", api, {"title": title}


def check_guard(site: Site) -> Iterator[Found]:
    """Where the scheduler gets limits of ours: the guard runs, which gives jobs more time before their limits."""
    folder, settings = live_pointer(site.root).parent, site.settings
    # OpenPBS itself gives a job more time.
    if settings is None or settings.export.mode != "limit" or settings.guard.scheduler == "pbs":
        return
    if not store.is_held(folder):
        yield "stopped", folder, {"name": site_slug(settings.site.name)}


def check_lookup(site: Site) -> Iterator[Found]:
    """The look-up files of a scheduler on this machine are intact, and as new as the published tables."""
    manifest = site.manifest
    slurm_conf = site.environment.get("SLURM_CONF") or "/etc/slurm/slurm.conf"
    pbs_home = site.environment.get("PBS_HOME") or "/var/spool/pbs"
    for scheduler, folder in (("slurm", Path(slurm_conf).parent), ("openpbs", Path(pbs_home, "server_priv"))):
        path = folder / LOOKUP_FILE
        content, values = _bytes(path), {"scheduler": scheduler}
        if content is not None and not is_whole(content):
            yield "damaged", path, values
        elif content is not None:
            lookup = Lookup(io.BytesIO(content))
            age_s = (manifest.data_newest_end_s or 0) - lookup.newest_end_s
            if unquote(lookup.facts["site"]) == manifest.site and age_s > site.max_age_s:
                yield "old", path, values | {"age": timedelta(seconds=age_s)}


def check_space(site: Site) -> Iterator[Found]:
    """The disk has room for the next run."""
    size = sum(entry.bytes for entry in site.manifest.tables.values())
    free, needed = shutil.disk_usage(site.root).free, SPARE_VERSIONS * size
    if free < needed:
        name = "none" if free < size else "little"
        yield name, site.root, {"free": free / 2**20, "needed": needed / 2**20}


def check_permissions(site: Site) -> Iterator[Found]:
    """The folders of the store can be written, and the manifest can be read."""
    for folder in (site.root, site.root / VERSIONS, site.root / store.WORK):
        if folder.is_dir() and os.statvfs(folder).f_flag & os.ST_RDONLY:
            yield "read_only", folder, {}
            return
        if folder.is_dir() and not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            yield "denied", folder, {"user": os.getuid()}


def check_age(site: Site) -> Iterator[Found]:
    """The published version is not too old and is not dated in the future."""
    path, age_s = site.root / MANIFEST, site.now_s - site.manifest.created_s
    if age_s > site.max_age_s:
        yield "old", path, {"age": timedelta(seconds=age_s), "most": timedelta(seconds=site.max_age_s)}
    if age_s < -_CLOCK_SLACK_S:
        yield "future", path, {"age": timedelta(seconds=-age_s)}


def check_limits(site: Site) -> Iterator[Found]:
    """No job was ended at a limit of ours before its request."""
    if ended := [row for row in limit_facts(site.manifest)["weeks"] if row["n_ended"]]:
        yield "ended", site.root, {"n": sum(row["n_ended"] for row in ended), "week": ended[0]["week"]}


CHECKS: dict[str, Callable[[Site], Iterator[Found]]] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        check_config, check_logs, check_sacct, check_manifest, check_tables, check_live, check_versions,
        check_leftovers, check_lock, check_last_run, check_serving, check_guard, check_lookup, check_space,
        check_permissions, check_age, check_limits,
    )
}  # fmt: skip
"""Every check by its name, in the order in which findings are listed."""


def check_published(folder: Path, now_s: float) -> dict[str, Any]:
    """The checks of the published version, in plain values, with the settings of its run.

    `passed` is false where one that blocks has failed. InputError where nothing is published there.
    """
    manifest = load_manifest(folder)
    before, reason = checks.version_before(manifest, manifest.site, published=True)
    files = {name: manifest.path(name) for name in manifest.tables if name in TABLES}
    # A run of another release has recorded no settings of checks, or those of others.
    known = {name: one for name, one in manifest.settings.get("checks", {}).items() if name in checks.CHECKS}
    settings = parse_settings({"checks": known}, printable(str(manifest.root)))
    results = checks.check_night(
        checks.Night(manifest, files, now_s, settings.checks, before.tables if before else None, reason)
    )
    return {
        "run_id": manifest.run_id,
        "site": manifest.site,
        "folder": manifest.folder,
        "compared_with": before.run_id if before else None,
        "not_compared": reason or None,
        "passed": not checks.blocking(results),
        "checks": [asdict(one) for one in results],
    }
