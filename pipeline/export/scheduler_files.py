"""The files that a scheduler's plug-in consists of: its code, the settings of the site, the look-up file, and how to
install them.

Slurm has a job_submit plug-in in Lua. OpenPBS has a hook that sets soft_walltime; its code is the same for every site,
its settings are JSON in the hook's config, and names stand in the look-up file, so that no text of a user or a site
becomes code or a command.
"""

import json
from pathlib import Path
from typing import Any

from pipeline.application_names import MAX_CHARACTERS, RULES
from pipeline.errors import InputError
from pipeline.export.lookup_file import lookup_file
from pipeline.export.lua import Plain, lua, rule_trees
from pipeline.export.published_tables import Files, PublishedTables
from pipeline.limits.soft import SoftRules, rules_of
from pipeline.settings import QUANTILES, ExportSettings, Whose

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

DAY_S = 86_400.0
PRIORITY_PER_HALVING = 1000.0
"""Of the site factor, for each halving of the expected runtime below a day; chosen, not measured."""

HEARTBEAT_FILE, HEARTBEAT_S = "walltime.heartbeat", 180.0
"""Beside the look-up: the time of the guard's last round, s since 1970; no limit is set where it is older."""

RENEW_AFTER_S = 3600.0
"""A job that waited so long gets a new soft_walltime at its start, if jobs that ended since are known."""


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
    return lookup_file(
        tables.estimates, tables.applications, tables.memory, tables.gpu_types, tables.early, tables.medians_s
    )  # fmt: skip


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
