"""The columns of the tables, as `walltime columns` lists them."""

from typing import Any

from pipeline.core.errors import InputError
from pipeline.core.tables import TABLES
from pipeline.core.text import did_you_mean, printable


def described_tables(table: str | None) -> dict[str, dict[str, Any]]:
    """Per table its meaning and, per column, name, type, unit, meaning and whether it is in the key or nullable.

    All tables without a name; InputError for a name that no table has.
    """
    if table is not None and table not in TABLES:
        hint = did_you_mean(table, TABLES)
        raise InputError("TABLE", f"table {printable(table)}", f"one of {', '.join(TABLES)}", hint)
    return {
        kind.name: {
            "meaning": kind.meaning,
            "columns": [
                {
                    "name": c.name,
                    "type": str(c.field(on_disk=True).type),
                    "unit": c.unit,
                    "meaning": c.meaning,
                    "is_key": c.name in kind.key,
                    "is_nullable": not c.is_required,
                }
                for c in kind.columns
            ],
        }
        for kind in TABLES.values()
        if table in (None, kind.name)
    }
