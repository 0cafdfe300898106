"""Slurm's job_submit plug-in in Lua, with the settings of the site, and the look-up file that it reads."""

from dataclasses import dataclass

from pipeline.application_names import RULES
from pipeline.export.lookup_file import QUANTILE_NAMES, lookup_file
from pipeline.export.lua import Plain, lua, rule_trees
from pipeline.export.published_tables import (
    INSTALL_FILE,
    LOOKUP_FILE,
    Files,
    PublishedTables,
    plugin_bytes,
    refuse_hashed_names,
)
from pipeline.settings import ExportSettings

PLUGIN_FILE = "job_submit.lua"


@dataclass(frozen=True, slots=True)
class LimitRules:
    """When the plug-in changes a limit, and the site factor that it sets in mode priority."""

    least_change_s: float = 60.0
    """A limit that would change by less is left alone: Slurm's limits are whole minutes."""
    priority_per_halving: float = 1000.0
    """Of the site factor, for each halving of the expected runtime below a day; chosen, not measured."""


LIMIT_RULES = LimitRules()


def slurm_files(tables: PublishedTables, settings: ExportSettings) -> Files:
    """walltime.lookup, job_submit.lua and INSTALL.txt; InputError where names are hashed."""
    refuse_hashed_names(tables, "Slurm")
    return {
        LOOKUP_FILE: lookup_file(tables.estimates, tables.applications),
        PLUGIN_FILE: plugin(settings, tables.has_own_name_rules).encode("ascii"),
        INSTALL_FILE: plugin_bytes("INSTALL-slurm.txt"),
    }


def plugin(
    settings: ExportSettings, has_own_name_rules: bool, path: str | None = None, rules: LimitRules = LIMIT_RULES
) -> str:
    """The text of job_submit.lua; `path`: of the look-up, where it is not beside slurm.conf."""
    template = plugin_bytes(PLUGIN_FILE).decode("ascii")
    values = {
        "SETTINGS": lua(_settings(settings, has_own_name_rules, path, rules)),
        "RULES": lua(rule_trees([(rule.find, rule.gives) for rule in RULES])),
    }
    for name, text in values.items():
        template = template.replace(f"--@{name}@", text, 1)
    return template


def _settings(settings: ExportSettings, has_own_name_rules: bool, path: str | None, rules: LimitRules) -> Plain:
    return {
        "mode": settings.mode,
        "quantile_place": QUANTILE_NAMES.index(f"q{100 * settings.promise:.0f}") + 1,
        "margin_s": settings.margin_s,
        "least_change_s": rules.least_change_s,
        "priority_per_halving": rules.priority_per_halving,
        "has_own_name_rules": has_own_name_rules,
        "path": path,
        "opt_out_users": dict.fromkeys(settings.opt_out.users, True),
        "opt_out_accounts": dict.fromkeys(settings.opt_out.accounts, True),
        "opt_out_partitions": dict.fromkeys(settings.opt_out.partitions, True),
    }
