"""A hook for OpenPBS that sets soft_walltime, with its settings, the look-up file, and the commands that install them.

The hook's code is the same for every site. Settings are JSON in the hook's config and names stand in the look-up file,
so that no text of a user or a site becomes code or a command.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.application_names import MAX_CHARACTERS, RULES
from pipeline.export.lookup_file import lookup_file
from pipeline.export.published_tables import (
    INSTALL_FILE,
    LOOKUP_FILE,
    Files,
    PublishedTables,
    plugin_bytes,
    refuse_hashed_names,
)
from pipeline.settings import ExportSettings

HOOK = Path(__file__).with_name("openpbs_hook.py")

HOOK_FILE = "walltime_hook.py"
CONFIG_FILE = "walltime_hook.json"
QMGR_FILE = "walltime_hook.qmgr"


@dataclass(frozen=True, slots=True)
class SoftRules:
    """What soft_walltime is. No job is killed for it, so that the median is enough (docs/decisions/openpbs.md)."""

    quantile: float = 0.5
    """Quantile of the runtime that OpenPBS plans with."""
    margin_s: float = 0.0
    """Time added to that quantile."""
    renew_after_s: float = 3600.0
    """A job that waited so long gets a new one at its start, if jobs that ended since are known."""


SOFT_RULES = SoftRules()


def openpbs_files(tables: PublishedTables, settings: ExportSettings, rules: SoftRules = SOFT_RULES) -> Files:
    """The hook, its config, the look-up file, and how to install them; InputError where names are hashed.

    Parameters
    ----------
    tables : PublishedTables
        One published version.
    settings : ExportSettings
        Whose jobs are left alone.
    rules : SoftRules
        The quantile and margin of soft_walltime, and when it is renewed.

    Returns
    -------
    mapping of str to bytes
        The bytes of each file, by name; the same input gives the same bytes.
    """
    refuse_hashed_names(tables, "OpenPBS")
    return {
        LOOKUP_FILE: lookup_file(tables.estimates, tables.applications),
        HOOK_FILE: HOOK.read_bytes(),
        CONFIG_FILE: (json.dumps(hook_settings(tables, settings, rules), indent=1) + "\n").encode("ascii"),
        QMGR_FILE: plugin_bytes(QMGR_FILE),
        INSTALL_FILE: plugin_bytes("INSTALL-openpbs.txt"),
    }


def hook_settings(tables: PublishedTables, settings: ExportSettings, rules: SoftRules) -> dict[str, Any]:
    """What the hook reads from its config; times in s, a relative path begins at PBS_HOME/server_priv."""
    return {
        "look_up": LOOKUP_FILE,
        "quantile": f"q{100 * rules.quantile:.0f}",
        "margin_s": rules.margin_s,
        "renew_after_s": rules.renew_after_s,
        "opt_out": {
            "user": settings.opt_out.users,
            "account": settings.opt_out.accounts,
            "queue": settings.opt_out.partitions,
        },
        "name_characters": MAX_CHARACTERS,
        # Rules of the site cannot run in the hook: the look-up has the names that they decided.
        "name_rules": None if tables.has_own_name_rules else [(rule.find, rule.gives) for rule in RULES],
    }
