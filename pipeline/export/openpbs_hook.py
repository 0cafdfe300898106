"""A hook of OpenPBS that sets soft_walltime, the runtime the scheduler plans with, from Walltime's look-up file.

No job is killed for its soft_walltime: the scheduler prolongs it up to the job's walltime. The hook runs as root inside
pbs_server, needs Python 3.6 and its standard library, and reads its settings from the hook's config (JSON). Its events:

queuejob   sets soft_walltime, never above walltime
modifyjob  lowers soft_walltime where a walltime is lowered below it, which OpenPBS would refuse
runjob     sets it anew where the job waited long and the look-up knows jobs that ended since, or where it has none

Left alone are jobs without a walltime, jobs with a range of walltimes (OpenPBS refuses soft_walltime for them), jobs
that were submitted with a soft_walltime, interactive jobs, those of the opt-out lists, and those whose user says so by
`qsub -v WALLTIME=off`. After an error the job is accepted as it is, and one line is logged.
"""

import json
import math
import os
import re
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

import pbs  # type: ignore[import-not-found]

FORMAT = "#walltime-lookup 1 "
PRIME = 2**31 - 1
ENTRY_BYTES = 13
QUANTILES = ("q10", "q50", "q80", "q90", "q95", "q99")
CUT_AT_REQUEST = ("q10", "q50")
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
        if has_none or int(lookup.facts["newest_end_s"]) > queued_s:
            set_soft_walltime(job, str(job.Job_Owner).partition("@")[0], settings, lookup)


def modified(job: Any, before: Any) -> None:
    """Lower soft_walltime to a walltime that is set below it."""
    walltime, soft = job.Resource_List["walltime"], before.Resource_List["soft_walltime"]
    if walltime is None or soft is None or job.Resource_List["soft_walltime"] is not None:
        return
    if LEAST_S <= int(walltime) < int(soft):
        job.Resource_List["soft_walltime"] = pbs.duration(int(walltime))


def may_be_set(job: Any) -> bool:
    """Whether the user has not opted out, and OpenPBS would take a soft_walltime for the job."""
    asked = job.Resource_List
    if (job.Variable_List or {}).get("WALLTIME") == "off" or job.interactive:
        return False
    has_range = asked["min_walltime"] is not None or asked["max_walltime"] is not None
    return not has_range and asked["walltime"] is not None and int(asked["walltime"]) >= LEAST_S


def set_soft_walltime(job: Any, user: str, settings: "dict[str, Any]", lookup: "Lookup") -> None:
    """Set what the look-up says, in whole seconds and at most the walltime; nothing where it knows nothing."""
    walltime_s = int(job.Resource_List["walltime"])
    facts = facts_of(job, user, walltime_s)
    if any(facts[name] in settings["opt_out"][name] for name in ("user", "account", "queue")):
        return
    template, runtime_s = lookup.find(with_program(facts, settings, lookup), settings["quantile"])
    if runtime_s is None or not math.isfinite(runtime_s):
        return
    soft_s = min(max(math.ceil(runtime_s + settings["margin_s"]), LEAST_S), walltime_s)
    job.Resource_List["soft_walltime"] = pbs.duration(soft_s)
    pbs.logmsg(pbs.EVENT_DEBUG, f"walltime: soft_walltime {soft_s} of {walltime_s} s by {template}")


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
        "procs": float(procs_of(job.Resource_List)),
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


def procs_of(asked: Any) -> int:
    """Processors of the chunks of select or nodes, a chunk without a number being one processor; else ncpus, else 1."""
    chunks = text_of(asked["select"]) or text_of(asked["nodes"])
    if chunks is None:
        return max(int(asked["ncpus"] or 1), 1)
    return sum(procs_of_chunk(chunk.split(":")) for chunk in chunks.partition("#")[0].split("+"))


def procs_of_chunk(parts: "list[str]") -> int:
    """Processors of a chunk such as `2:ncpus=4`, `node1:ppn=2` or `3`."""
    n_chunks = int(parts[0]) if parts[0].isdigit() else 1
    given = dict(part.partition("=")[::2] for part in parts)
    return n_chunks * int(given.get("ncpus") or given.get("ppn") or 1)


def with_program(facts: "dict[str, Any]", settings: "dict[str, Any]", lookup: "Lookup") -> "dict[str, Any]":
    """The values that the look-up's keys are made of."""
    return {
        "who": facts["user"], "what": program_of(facts, settings, lookup), "queue": facts["queue"],
        "requested_s": facts["requested_s"], "procs": facts["procs"],
    }  # fmt: skip


def program_of(facts: "dict[str, Any]", settings: "dict[str, Any]", lookup: "Lookup") -> "str | None":
    """What the job runs: the application of its name, else its name, else its queue; None where that is not known."""
    name, queue = facts["job_name"], facts["queue"]
    if name is None:
        return None if queue is None else "queue " + queue
    listed = lookup.application(name)
    if listed is not None:
        return listed
    if settings["name_rules"] is None:
        return None
    return application_of(name, settings) or "job_name " + name


def application_of(job_name: str, settings: "dict[str, Any]") -> "str | None":
    """The application of a job's name by the built-in rules, which the settings hold; None where nothing remains."""
    name = job_name[: settings["name_characters"]].casefold().strip()
    for find, gives in settings["name_rules"]:
        name = re.sub(find, gives, name)
    return name.strip("-") or None


class Lookup:
    """An open look-up file: two reads find a key."""

    def __init__(self, file: BinaryIO) -> None:
        """ValueError where the file is no look-up of this format, or was cut."""
        first = file.readline().decode("ascii", "replace")
        if not first.startswith(FORMAT):
            raise ValueError("no look-up file of this format: export it again")
        self.file = file
        self.facts = dict(word.partition("=")[::2] for word in first[len(FORMAT) :].split())
        self.chain = [one.partition(":")[::2] for one in file.readline().decode("ascii").split()[1:]]
        if os.fstat(file.fileno()).st_size != int(self.facts["bytes"]):
            raise ValueError("the look-up file was cut: export it again")

    def find(self, job: "dict[str, Any]", quantile: str) -> "tuple[str, float | None]":
        """The template of the first row that is present, and its quantile of the runtime (s); None where none is."""
        for rank, template in self.chain:
            values = [] if template == "all" else [job[name] for name in template.split("+")]
            line = None if None in values else self.line_of(key_of(rank, values))
            if line is not None:
                return template, quantile_s([float(number) for number in line.split("\t")[1:]], quantile, job)
        return "nothing", None

    def application(self, job_name: str) -> "str | None":
        """The application of a job's name where the file has it."""
        known = self.line_of(key_of("n", [job_name]))
        return None if known is None else unquote(known, errors="surrogateescape")

    def line_of(self, key: str) -> "str | None":
        """The text behind a key; None where the key is absent."""
        bucket = hash_of(key, int(self.facts["multiplier"])) % int(self.facts["buckets"])
        self.file.seek(int(self.facts["directory"]) + ENTRY_BYTES * bucket)
        start, end = (int(offset) for offset in self.file.read(2 * ENTRY_BYTES).split())
        self.file.seek(start)
        lines = self.file.read(end - start).decode("ascii").splitlines()
        return next((line[len(key) + 1 :] for line in lines if line.startswith(key + "\t")), None)


def key_of(kind: str, values: "list[Any]") -> str:
    """A key of the look-up file: texts with every special byte as %XX, so that none can end a field."""
    texts = [quoted(one) if isinstance(one, str) else f"{one:.17g}" for one in values]
    return "|".join([kind, *texts])


def quoted(text: str) -> str:
    """The text in ASCII."""
    return quote(text, safe="@+~", errors="surrogateescape")


def hash_of(key: str, multiplier: int) -> int:
    """The hash that leads to a key's bucket."""
    found = 0
    for byte in key.encode("ascii"):
        found = (found * multiplier + byte) % PRIME
    return found


def quantile_s(numbers: "list[float]", quantile: str, job: "dict[str, Any]") -> float:
    """Of a row's numbers the ratio times the request where it has ratios, else the seconds."""
    place, requested_s = QUANTILES.index(quantile), float(job["requested_s"])
    has_ratios = len(numbers) > len(QUANTILES)
    found = numbers[len(QUANTILES) + place] * requested_s if has_ratios else numbers[place]
    return min(found, requested_s) if quantile in CUT_AT_REQUEST else found


main(pbs.event())
