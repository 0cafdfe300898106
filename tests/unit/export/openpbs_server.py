"""A stand-in for pbs_server: it runs the hook as the server does, with a made-up module `pbs`."""

import json
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.export.scheduler_files import CONFIG_FILE, HOOK_FILE, LOOKUP_FILE

QUEUEJOB, MODIFYJOB, RUNJOB = 1, 2, 4
NOW_S = 2_000_000_000
Row = dict[str, Any]


RESOURCES = ("select", "nodes", "ncpus", "ngpus", "mem", "soft_walltime", "min_walltime", "max_walltime")


class Resources(dict[str, Any]):
    """As OpenPBS has it: None for what was not asked for, an error for a resource that the server does not know."""

    def __missing__(self, name: str) -> None:
        if name == "ngpus" or name not in (*RESOURCES, "walltime"):
            raise AttributeError(f"'pbs_resource' object has no attribute '{name}'")


@dataclass
class Job:
    """A job as hooks see it."""

    Resource_List: Resources
    Job_Name: str | None = "prep"
    queue: Any = ""
    Account_Name: str | None = None
    project: str | None = None
    Job_Owner: str = "u1@host.example"
    qtime: int = NOW_S - 60
    Variable_List: Any = None
    interactive: Any = None

    @property
    def soft_s(self) -> int | None:
        return self.Resource_List["soft_walltime"]


@dataclass
class Server:
    """A PBS_HOME with the hook installed."""

    private: Path
    config: Row
    now_s: float = NOW_S
    log: list[str] = field(default_factory=list)
    default_queue: str = "workq"
    n_asked: int = 0
    """How often a hook has asked for the server's attributes."""

    def attributes(self) -> types.SimpleNamespace:
        """The server's, as far as the hook asks for them."""
        self.n_asked += 1
        return types.SimpleNamespace(default_queue=types.SimpleNamespace(name=self.default_queue))

    def call(self, kind: int, job: Job, before: Job | None = None, user: str = "u1") -> Job:
        """The job after an event, which has to end with its acceptance."""

        def accept() -> None:
            raise SystemExit(0)

        event = types.SimpleNamespace(type=kind, job=job, job_o=before, requestor=user, accept=accept)
        pbs = types.ModuleType("pbs")
        pbs.__dict__.update(
            QUEUEJOB=QUEUEJOB, MODIFYJOB=MODIFYJOB, RUNJOB=RUNJOB, EVENT_ERROR=1, EVENT_DEBUG=2, duration=int,
            hook_config_filename=str(self.private / "hooks" / "walltime.CF"), event=lambda: event,
            logmsg=lambda level, text: self.log.append(text),
            server=self.attributes,
        )  # fmt: skip
        Path(str(pbs.hook_config_filename)).write_text(json.dumps(self.config), "ascii")
        code = compile((self.private / HOOK_FILE).read_bytes(), "<embedded code object>", "exec")
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit):
            patch.setitem(sys.modules, "pbs", pbs)
            patch.setattr("time.time", lambda: self.now_s)
            exec(code, {"__builtins__": __builtins__})
        return job


def submit(walltime: int | None = 3600, **values: Any) -> Job:
    """A job that asks for resources (select and so on) beside its other attributes."""
    asked = {name: values.pop(name) for name in RESOURCES if name in values}
    return Job(Resources(walltime=walltime, **asked), **values)


def installed(files: Mapping[str, bytes], folder: Path) -> Server:
    """A server with the exported files."""
    private = folder / "home dir" / "server_priv"
    (private / "hooks").mkdir(parents=True)
    for name in (HOOK_FILE, LOOKUP_FILE):
        (private / name).write_bytes(files[name])
    return Server(private, json.loads(files[CONFIG_FILE]))
