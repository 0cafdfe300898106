"""The files that a scheduler's plug-in consists of: its code, the settings of the site, the look-up file, and how to
install them; and the table for other programs.

Slurm has a job_submit plug-in in Lua. OpenPBS has a hook that sets soft_walltime; its code is the same for every site,
its settings are JSON in the hook's config, and names stand in the look-up file, so that no text of a user or a site
becomes code or a command.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.application_names import MAX_CHARACTERS, RULES, application_of
from pipeline.arrays import DAY_S
from pipeline.errors import InputError, spreadsheet_text
from pipeline.export.lookup_file import lookup_file
from pipeline.export.lua import Plain, lua, rule_trees
from pipeline.limits.soft import SoftRules, rules_of
from pipeline.limits.status import READ, early_kinds
from pipeline.settings import QUANTILES, ExportSettings, Whose
from pipeline.tables import JOBS, MEMORY

PLUGINS = Path(__file__).with_name("plugins")
"""The parts of plug-ins that are the same for every site."""

LOOKUP_FILE = "walltime.lookup"
INSTALL_FILE = "INSTALL.txt"
PLUGIN_FILE = "job_submit.lua"
HOOK_FILE = "walltime_hook.py"
HOOK_CODE, READER_CODE = "openpbs_hook.py", "lookup_reader.py"
READER_IMPORT = "from pipeline.export.lookup_reader import Lookup\n"
CONFIG_FILE = "walltime_hook.json"
QMGR_FILE = "walltime_hook.qmgr"

PRIORITY_PER_HALVING = 1000.0
"""Of the site factor, for each halving of the expected runtime below a day; chosen, not measured."""

HEARTBEAT_FILE, HEARTBEAT_S = "walltime.heartbeat", 180.0
"""Beside the look-up: the time of the guard's last round, s since 1970; no limit is set where it is older."""

RENEW_AFTER_S = 3600.0
"""A job that waited so long gets a new soft_walltime at its start, if jobs that ended since are known."""


JOBS_READ = tuple(dict.fromkeys((*READ, "job_name", "application", "queue", "gpus", "gpu_type")))
"""The columns of JOBS that exports read."""


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """One published version, as far as exports read it: ESTIMATES, the columns of JOBS_READ, and MEMORY.

    `has_hashed_names`: users, accounts and names are keyed hashes. `has_own_name_rules`: the site has rules that derive
    applications from job names.
    """

    estimates: pa.Table
    jobs: pa.Table = field(default_factory=JOBS.empty)
    memory: pa.Table = field(default_factory=MEMORY.empty)
    has_hashed_names: bool = False
    has_own_name_rules: bool = False


Files = Mapping[str, bytes]
"""The bytes of each file, by name."""


def slurm_files(tables: PublishedTables, settings: ExportSettings) -> Files:
    """walltime.lookup, job_submit.lua and INSTALL.txt; InputError where names are hashed."""
    return {
        LOOKUP_FILE: _lookup(tables, "Slurm"),
        PLUGIN_FILE: plugin(settings, tables.has_own_name_rules).encode("ascii"),
        INSTALL_FILE: (PLUGINS / "INSTALL-slurm.txt").read_bytes(),
    }


def plugin(
    settings: ExportSettings, has_own_name_rules: bool, path: str | None = None, rules: SoftRules | None = None
) -> str:
    """The text of job_submit.lua; `path`: of the look-up, where not beside slurm.conf; `rules`: None: the site's."""
    rules = rules or rules_of(settings.quantile, settings.over_time_limit_min)
    values: dict[str, Plain] = {
        "mode": settings.mode,
        "order": settings.order,
        "quantile_place": QUANTILES.index(settings.quantile) + 1,
        "margin_s": rules.margin_s,
        "least_saved_s": rules.least_saved_s,
        "least_saved_share": rules.least_saved_share,
        "heartbeat": HEARTBEAT_FILE,
        "heartbeat_s": HEARTBEAT_S,
        "max_age_s": DAY_S * settings.max_age_days,
        "priority_per_halving": PRIORITY_PER_HALVING,
        "has_own_name_rules": has_own_name_rules,
        "path": path,
        "opt_out": _sets(settings.opt_out),
        "opt_in": _sets(settings.opted_in),
        "has_opt_in": bool(settings.opt_in),
    }
    template = (PLUGINS / PLUGIN_FILE).read_text(encoding="ascii")
    template = template.replace("--@SETTINGS@", lua(values), 1)
    return template.replace("--@RULES@", lua(rule_trees(RULES.values())), 1)


def _sets(whose: Whose) -> dict[str, Plain]:
    return {kind: dict.fromkeys(names, True) for kind, names in whose.model_dump().items()}


def openpbs_files(tables: PublishedTables, settings: ExportSettings) -> Files:
    """The hook, its config, the look-up file, and how to install them; InputError where names are hashed.

    Parameters
    ----------
    tables : PublishedTables
        One published version.
    settings : ExportSettings
        Whose jobs are left alone.

    Returns
    -------
    mapping of str to bytes
        The bytes of each file, by name; the same input gives the same bytes.
    """
    return {
        LOOKUP_FILE: _lookup(tables, "OpenPBS"),
        HOOK_FILE: _hook().encode("ascii"),
        CONFIG_FILE: (json.dumps(_hook_settings(tables, settings), indent=1) + "\n").encode("ascii"),
        QMGR_FILE: (PLUGINS / QMGR_FILE).read_bytes(),
        INSTALL_FILE: (PLUGINS / "INSTALL-openpbs.txt").read_bytes(),
    }


def _hook() -> str:
    """The hook's code, with the reader of look-up files in place of its import."""
    code, reader = (Path(__file__).with_name(name).read_text("ascii") for name in (HOOK_CODE, READER_CODE))
    return code.replace(READER_IMPORT, reader, 1)


def _lookup(tables: PublishedTables, scheduler: str) -> bytes:
    """The look-up file; InputError where names are hashed: a plug-in sees plain names, and would find no user's row."""
    if tables.has_hashed_names:
        raise InputError(
            "the published tables", "hashed names, which a plug-in cannot look up", f"plain names for {scheduler}",
            "publish without anonymise into a folder that only the scheduler reads, and export from there",
        )  # fmt: skip
    jobs = tables.jobs
    early = [(one["user"], one["what"]) for one in early_kinds(jobs)]
    return lookup_file(
        tables.estimates, known_applications(jobs), tables.memory, known_gpu_types(jobs), early, known_medians(jobs)
    )


def _hook_settings(tables: PublishedTables, settings: ExportSettings) -> dict[str, Any]:
    """What the hook reads from its config; times in s, a relative path begins at PBS_HOME/server_priv."""
    opt_out, opt_in = settings.opt_out, settings.opted_in
    return {
        "look_up": LOOKUP_FILE,
        "mode": settings.mode,
        "max_age_s": DAY_S * settings.max_age_days,
        "renew_after_s": RENEW_AFTER_S,
        "quantile_place": QUANTILES.index(settings.quantile),
        "opt_out": {"user": opt_out.users, "account": opt_out.accounts, "queue": opt_out.partitions},
        "opt_in": {"user": opt_in.users, "account": opt_in.accounts, "queue": opt_in.partitions},
        "name_characters": MAX_CHARACTERS,
        # Rules of the site cannot run in the hook: the look-up has the names that they decided.
        "name_rules": None if tables.has_own_name_rules else list(RULES.values()),
    }


def known_applications(jobs: pa.Table) -> dict[str, str]:
    """The application of each job name, where the built-in rules would not find it in every plug-in.

    These are names to which a rule of the site gave an application, and names with letters beyond ASCII, to which Lua's
    patterns cannot be applied. Of several applications of one name the most frequent is taken. In order of name.

    Parameters
    ----------
    jobs : pa.Table
        JOBS, of which job_name and application are read.

    Returns
    -------
    dict of str to str
        Application by job name; empty where the log has no names.

    Examples
    --------
    >>> known_applications(tables["jobs"])
    {}
    """
    names = jobs.select(["job_name", "application"]).drop_null().to_pandas().astype(str)
    counts = names.value_counts().reset_index()
    counts = counts.sort_values(["job_name", "count", "application"], ascending=[True, False, True])
    chosen = counts.drop_duplicates("job_name").set_index("job_name")["application"].to_dict()
    return {name: one for name, one in chosen.items() if not name.isascii() or application_of(name) != one}


def known_gpu_types(jobs: pa.Table) -> dict[str, str]:
    """By queue the one type of GPUs that its jobs in JOBS have held: that of a submit that names none."""
    held = jobs.select(["queue", "gpu_type"]).filter(pc.greater(jobs.column("gpus"), 0)).drop_null()
    types = held.to_pandas().astype(str).groupby("queue")["gpu_type"].agg(["nunique", "min"])
    return dict(types.loc[types["nunique"] == 1, "min"].to_dict())


def known_medians(jobs: pa.Table) -> dict[str, float]:
    """By queue the median runtime of its jobs in JOBS, s: the order of jobs whose own runtime is not to be used."""
    runs = pa.table({"queue": jobs["queue"].cast(pa.string()), "runtime_s": jobs["runtime_s"]}).drop_null()
    return dict(runs.to_pandas().groupby("queue")["runtime_s"].median().to_dict())


CSV_FILE = "walltime.csv"


def csv_files(tables: PublishedTables, settings: ExportSettings) -> Files:  # noqa: ARG001
    """walltime.csv: ESTIMATES with a header, in UTF-8, with line ends CR LF (RFC 4180).

    A text that begins as a formula does gets an apostrophe in front, which spreadsheets do not show. A database that
    needs the text itself removes one leading apostrophe. Null is an empty cell; an empty text cannot be told from it.
    """
    rows = zip(*(column.to_pylist() for column in tables.estimates.columns), strict=True)
    return {CSV_FILE: csv_text(tables.estimates.column_names, rows).encode("utf-8", "backslashreplace")}


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]], line_end: str = "\r\n") -> str:
    """Rows as CSV with a header; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator=line_end)
    writer.writerow(columns)
    writer.writerows([spreadsheet_text(one) if isinstance(one, str) else one for one in row] for row in rows)
    return out.getvalue()


WRITERS: Mapping[str, Callable[[PublishedTables, ExportSettings], Files]] = {
    "csv": csv_files, "pbs": openpbs_files, "slurm": slurm_files
}  # fmt: skip
"""The schedulers and programs that exports are written for."""
