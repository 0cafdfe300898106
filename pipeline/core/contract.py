"""The contract of the published tables: their columns, types, units, nullability and keys, as plain values.

A release may add tables and nullable columns. Everything else breaks a reader of the release before. The contracts of
the releases are in `contracts/`; `python -m pipeline.core.contract` prints that of the code.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from pipeline.core.table_kind import TableKind
from pipeline.core.tables import TABLES
from pipeline.core.text import printable
from pipeline.core.version import RELEASE

Contract = Mapping[str, Any]
"""Per table `key`, a list of names, and `columns`: per name `type`, `unit` and `nullable`."""


def contract_of(kinds: Iterable[TableKind]) -> dict[str, Any]:
    """The contract that some tables declare; types are those on disk."""
    return {
        kind.name: {
            "key": list(kind.key),
            "columns": {
                c.name: {"type": str(c.field(on_disk=True).type), "unit": c.unit, "nullable": not c.is_required}
                for c in kind.columns
            },
        }
        for kind in kinds
    }


def released_contracts() -> dict[str, dict[str, Any]]:
    """The contracts of the releases by file name, as in 0.1.json."""
    found = sorted((one for one in files("pipeline.core").joinpath("contracts").iterdir()), key=lambda one: one.name)
    return {one.name: json.loads(one.read_text(encoding="utf-8")) for one in found if one.name.endswith(".json")}


def breaches(before: Contract, after: Contract) -> list[str]:
    """Every way in which readers of `before` could fail on `after`, a sentence each; added tables and nullable columns
    are none."""
    found = [f"table {_shown(name)} is gone" for name in before if name not in after]
    for name in before:
        if name in after:
            found += [f"table {_shown(name)}: {what}" for what in _table_breaches(before[name], after[name])]
    return found


def _table_breaches(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if list(before["key"]) != list(after["key"]):
        yield f"the key ({_shown(*before['key'])}) has become ({_shown(*after['key'])})"
    old, new = before["columns"], after["columns"]
    for name in old:
        if name not in new:
            yield f"column {_shown(name)} is gone"
            continue
        for fact in ("type", "unit", "nullable"):
            if old[name][fact] != new[name][fact]:
                yield f"column {_shown(name)}: {fact} {_shown(old[name][fact])} has become {_shown(new[name][fact])}"
    for name in new:
        if name not in old and not new[name]["nullable"]:
            yield f"column {_shown(name)} was added and is not nullable"


def _shown(*values: object) -> str:
    return ", ".join(printable(str(value), 100) for value in values)


def contract_text() -> str:
    """The contract of the code as a file of `contracts/`."""
    return json.dumps({"release": RELEASE, "tables": contract_of(TABLES.values())}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(contract_text())
