"""Slurm's job_submit plug-in in Lua, with the settings of the site, and the look-up file that it reads."""

from importlib.resources import files

from pipeline.core.applications import RULES
from pipeline.core.export_settings import ExportSettings
from pipeline.export.lookup_file import QUANTILE_NAMES, lookup_file
from pipeline.export.lua_patterns import rule_trees
from pipeline.export.lua_text import Plain, lua
from pipeline.export.published_tables import Files, PublishedTables, refuse_hashed_names

LOOKUP_FILE = "walltime.lookup"
PLUGIN_FILE = "job_submit.lua"
INSTALL_FILE = "INSTALL.txt"

INSTALL = """\
To install in the folder of slurm.conf, here /etc/slurm, as root on the machine of slurmctld, from this folder:

  1. The look-up, now and after each run. It names users, and only slurmctld's user needs to read it.
       install -o slurm -m 600 walltime.lookup /etc/slurm/.walltime.lookup.new
       mv /etc/slurm/.walltime.lookup.new /etc/slurm/walltime.lookup
  2. The plug-in, once and after each change of [export]:
       install -m 644 job_submit.lua /etc/slurm/job_submit.lua
     A site that has a job_submit.lua installs this one as walltime_submit.lua. The first lines of the plug-in say how
     to call it.
  3. In slurm.conf, once:
       JobSubmitPlugins=lua
     then: scontrol reconfigure

slurmctld reads a new plug-in at the next submit, and a new look-up too. It logs the stamp of each new look-up.
"""


def slurm_files(tables: PublishedTables, settings: ExportSettings) -> Files:
    """walltime.lookup, job_submit.lua and INSTALL.txt; InputError where names are hashed."""
    refuse_hashed_names(tables, "Slurm")
    return {
        LOOKUP_FILE: lookup_file(tables.estimates, tables.applications),
        PLUGIN_FILE: plugin(settings, tables.has_own_name_rules).encode("ascii"),
        INSTALL_FILE: INSTALL.encode("ascii"),
    }


def plugin(settings: ExportSettings, has_own_name_rules: bool, path: str | None = None) -> str:
    """The text of job_submit.lua; `path`: of the look-up, where it is not beside slurm.conf."""
    template = files("pipeline.export").joinpath("plugins", PLUGIN_FILE).read_text("ascii")
    values = {
        "SETTINGS": lua(_settings(settings, has_own_name_rules, path)),
        "RULES": lua(rule_trees([(rule.find, rule.gives) for rule in RULES])),
    }
    for name, text in values.items():
        template = template.replace(f"--@{name}@", text, 1)
    return template


def _settings(settings: ExportSettings, has_own_name_rules: bool, path: str | None) -> Plain:
    return {
        "mode": settings.mode,
        "quantile_place": QUANTILE_NAMES.index(f"q{100 * settings.quantile:.0f}") + 1,
        "margin_s": settings.margin_s,
        "least_change_s": settings.least_change_s,
        "priority_per_halving": settings.priority_per_halving,
        "has_own_name_rules": has_own_name_rules,
        "path": path,
        **{
            name: dict.fromkeys(getattr(settings, name), True)
            for name in ("opt_out_users", "opt_out_accounts", "opt_out_partitions")
        },
    }
