"""The contract of the published tables: their columns, types, units, nullability and keys, as plain values.

A release may add tables and nullable columns. Everything else breaks a reader of the release before. The contracts of
the releases are in `contracts/`; `python -m tools.table_contract` prints that of the code.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.errors import printable
from pipeline.publish.manifest import TableEntry
from pipeline.schema import TableKind

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


def contract_of_entries(tables: Mapping[str, TableEntry]) -> dict[str, Any]:
    """The contract that some files keep."""
    return {
        name: {
            "key": list(table.key),
            "columns": {c.name: {"type": c.type, "unit": c.unit, "nullable": c.nullable} for c in table.columns},
        }
        for name, table in tables.items()
    }


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
