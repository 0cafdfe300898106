"""A hook of OpenPBS that sets soft_walltime, the runtime the scheduler plans with, by Walltime's estimate.

Jobs without an estimate below their walltime plan with their walltime.

No job is killed for its soft_walltime: the scheduler prolongs it up to the job's walltime. The hook runs as root inside
pbs_server, needs Python 3.6 and its standard library, and reads its settings from the hook's config (JSON). Its events:

queuejob   sets soft_walltime, never above walltime
modifyjob  lowers soft_walltime where a walltime is lowered below it, which OpenPBS would refuse
runjob     sets it anew where the job waited long and the look-up knows jobs that ended since, or where it has none

Under another mode than "limit" nothing is set, and the server's log has what would be set.

Left alone are jobs without a walltime, jobs with a range of walltimes (OpenPBS refuses soft_walltime for them), jobs
that were submitted with a soft_walltime, interactive jobs, those of the opt-out lists, and those whose user says so by
`qsub -v WALLTIME=off`. After an error the job is accepted as it is, and one line is logged.
"""

import json
import math
import re
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pbs  # type: ignore[import-not-found]

from pipeline.export.lookup_reader import Lookup

LEAST_S = 1
"""A soft_walltime of 0 would end OpenPBS's scheduler, which divides by it."""


QUEUE_KEPT_S = 60
"""How long the server's default queue is kept: asking for it takes half of the hook's time."""

KEPT = sys.modules.setdefault("walltime_hook_kept", types.ModuleType("walltime_hook_kept")).__dict__
"""What one job's hook leaves to the next: pbs_server runs each in a new namespace, and keeps its modules."""


def main(event: Any) -> None:
    """Do what the event asks for; the job is accepted whatever happens."""
    try:
        if event.type == pbs.QUEUEJOB:
            queued(event.job, event.requestor)
        elif event.type == pbs.MODIFYJOB:
            modified(event.job, event.job_o)
        elif event.type == pbs.RUNJOB:
            started(event.job)
    # An error or an alarm (KeyboardInterrupt) that left the hook would make OpenPBS refuse the job.
    except (Exception, KeyboardInterrupt) as error:
        pbs.logmsg(pbs.EVENT_ERROR, "walltime: a job is left as it is: " + ascii(error)[:300])
    event.accept()


def queued(job: Any, user: str) -> None:
    """Set the soft_walltime of a job that is being submitted."""
    if may_be_set(job) and job.Resource_List["soft_walltime"] is None:
        settings = read_settings()
        with open_look_up(settings) as file:
            set_soft_walltime(job, user, settings, Lookup(file))


def started(job: Any) -> None:
    """Set the soft_walltime of a starting job anew where it waited long and newer runtimes are known."""
    if not may_be_set(job):
        return
    settings, queued_s = read_settings(), int(job.qtime)
    has_none, waited_s = job.Resource_List["soft_walltime"] is None, time.time() - queued_s
    if not has_none and waited_s < settings["renew_after_s"]:
        return
    with open_look_up(settings) as file:
        lookup = Lookup(file)
        if has_none or lookup.newest_end_s > queued_s:
            set_soft_walltime(job, str(job.Job_Owner).partition("@")[0], settings, lookup)


def modified(job: Any, before: Any) -> None:
    """Lower soft_walltime to a walltime that is set below it."""
    walltime, soft = job.Resource_List["walltime"], before.Resource_List["soft_walltime"]
    if walltime is None or soft is None or job.Resource_List["soft_walltime"] is not None:
        return
    if LEAST_S <= int(walltime) < int(soft) and read_settings()["mode"] == "limit":
        job.Resource_List["soft_walltime"] = pbs.duration(int(walltime))


def may_be_set(job: Any) -> bool:
    """Whether the user has not opted out, and OpenPBS would take a soft_walltime for the job."""
    asked = job.Resource_List
    if (job.Variable_List or {}).get("WALLTIME") == "off" or job.interactive:
        return False
    has_range = asked["min_walltime"] is not None or asked["max_walltime"] is not None
    return not has_range and asked["walltime"] is not None and int(asked["walltime"]) >= LEAST_S


def set_soft_walltime(job: Any, user: str, settings: "dict[str, Any]", lookup: Lookup) -> None:
    """Set the limit of the look-up, in whole seconds and below the walltime; nothing where it has none."""
    walltime_s = int(job.Resource_List["walltime"])
    facts = facts_of(job, user, walltime_s)
    if is_named(facts, settings["opt_out"]) or (
        any(settings["opt_in"].values()) and not is_named(facts, settings["opt_in"])
    ):
        return
    age_s = time.time() - lookup.newest_end_s
    if age_s > settings["max_age_s"]:
        pbs.logmsg(pbs.EVENT_DEBUG, f"walltime: the newest job of the look-up ended {age_s / 86400:.0f} days ago")
        return
    rules = settings["name_rules"]
    application = None if rules is None else lambda name: application_of(name, settings["name_characters"], rules)
    found = lookup.estimate(lookup.values_of(facts, application))
    soft_s = math.ceil(found.quantiles_s[settings["quantile_place"]]) if found else 0
    if not LEAST_S <= soft_s < walltime_s:
        return
    what = f"soft_walltime {soft_s} of {walltime_s} s"
    if settings["mode"] == "limit":
        job.Resource_List["soft_walltime"] = pbs.duration(soft_s)
        pbs.logmsg(pbs.EVENT_DEBUG, f"walltime: {what}")
    else:
        pbs.logmsg(pbs.EVENT_DEBUG, f"walltime: nothing is set (mode {settings['mode']}), else {what}")


def is_named(facts: "dict[str, Any]", lists: "dict[str, list[str]]") -> bool:
    """Whether the job's user, account or queue is in its list."""
    return any(facts[name] in names for name, names in lists.items())


def kept(name: str, mark: Any, make: "Callable[[], Any]") -> Any:
    """What `make` gives, made anew where the mark has changed."""
    if name not in KEPT or KEPT[name][0] != mark:
        KEPT[name] = mark, make()
    return KEPT[name][1]


def read_settings() -> "dict[str, Any]":
    """The hook's config."""
    path = Path(pbs.hook_config_filename)
    status = path.stat()
    mark = str(path), status.st_mtime_ns, status.st_size, status.st_ino
    settings: dict[str, Any] = kept("settings", mark, lambda: json.loads(path.read_text(encoding="utf-8")))
    return settings


def open_look_up(settings: "dict[str, Any]") -> BinaryIO:
    """The look-up file; a relative path begins at PBS_HOME/server_priv, where only root may write."""
    file: BinaryIO = (Path(pbs.hook_config_filename).parents[1] / settings["look_up"]).open("rb")
    return file


def facts_of(job: Any, user: str, walltime_s: int) -> "dict[str, Any]":
    """A job's values as the accounting will have them; None where unknown."""
    project = text_of(job.project)
    return {
        "user": user,
        "account": text_of(job.Account_Name) or (None if project == "_pbs_project_default" else project),
        "queue": text_of(getattr(job.queue, "name", job.queue)) or default_queue(),
        "job_name": text_of(job.Job_Name),
        "requested_s": float(walltime_s),
        "procs": float(counted(job.Resource_List, ("ncpus", "ppn"), 1)),
        "gpus": float(counted(job.Resource_List, ("ngpus", "gpus"), 0)),
    }


def text_of(value: Any) -> "str | None":
    """A text; None where there is none."""
    return str(value) if value is not None and str(value) else None


def default_queue() -> "str | None":
    """The queue of a job that names none."""

    def asked() -> "str | None":
        queue = pbs.server().default_queue
        return text_of(getattr(queue, "name", queue))

    name: str | None = kept("queue", (pbs.hook_config_filename, time.time() // QUEUE_KEPT_S), asked)
    return name


def counted(asked: Any, names: "tuple[str, str]", least: int) -> int:
    """The sum over the chunks of select or nodes, a chunk without a number being `least`; else what is asked for."""
    chunks = text_of(asked["select"]) or text_of(asked["nodes"])
    if chunks is None:
        return max(int(asked_for(asked, names[0]) or least), least)
    return sum(of_chunk(chunk.split(":"), names, least) for chunk in chunks.partition("#")[0].split("+"))


def asked_for(asked: Any, name: str) -> Any:
    """What was asked for; None also where the server does not know the resource, as ngpus on one without GPUs."""
    try:
        return asked[name]
    except (AttributeError, KeyError):
        return None


def of_chunk(parts: "list[str]", names: "tuple[str, str]", least: int) -> int:
    """The number of a chunk such as `2:ncpus=4`, `node1:ppn=2` or `3`."""
    n_chunks = int(parts[0]) if parts[0].isdigit() else 1
    given = dict(part.partition("=")[::2] for part in parts)
    return n_chunks * int(given.get(names[0]) or given.get(names[1]) or least)


def application_of(job_name: str, n_characters: int, rules: "list[list[str]]") -> "str | None":
    """The application of a job's name by the built-in rules; None where nothing remains."""
    name = job_name[:n_characters].casefold().strip()
    for find, gives in rules:
        name = re.sub(find, gives, name)
    return name.strip("-") or None


main(pbs.event())
