"""The contract of the published tables as a release has it: `python -m tools.table_contract` prints that of the code.

Its output is the file of a new release in `pipeline/publish/contracts`. The contract is the columns of the tables,
their types, units, nullability and keys, as plain values. A release may add tables and nullable columns. Everything
else breaks a reader of the release before; `tests/unit/core/test_contract.py` compares.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline import RELEASE
from pipeline.errors import printable
from pipeline.schema import TableKind
from pipeline.tables import TABLES

CONTRACTS = Path(__file__).resolve().parents[1] / "pipeline" / "publish" / "contracts"


Contract = Mapping[str, Any]
"""Per table `key`, a list of names, and `columns`: per name `type`, `unit` and `nullable`."""


def contract_of(kinds: Iterable[TableKind]) -> dict[str, Any]:
    """The contract that some tables declare; types are those on disk."""
    return {
        kind.name: {
            "key": list(kind.key),
            "columns": {
                one.name: {
                    "type": str(one.field(on_disk=True).type),
                    "unit": one.unit or None,
                    "nullable": not one.is_required,
                }
                for one in kind.columns
            },
        }
        for kind in kinds
    }


def breaches(before: Contract, after: Contract) -> list[str]:
    """Every way in which readers of `before` could fail on `after`, a sentence each; added tables and nullable columns
    are none, also where such a column is added to a key: rows of a log that has no such value are told apart as before.
    """
    found = [f"table {_shown(name)} is gone" for name in before if name not in after]
    for name in before:
        if name in after:
            found += [f"table {_shown(name)}: {what}" for what in _table_breaches(before[name], after[name])]
    return found


def _table_breaches(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = before["columns"], after["columns"]
    if list(before["key"]) != [name for name in after["key"] if name in old or not new[name]["nullable"]]:
        yield f"the key ({_shown(*before['key'])}) has become ({_shown(*after['key'])})"
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


def released_contracts() -> dict[str, dict[str, Any]]:
    """The contracts of the releases by file name, as in 0.1.json."""
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted(CONTRACTS.glob("*.json"))}


def contract_text() -> str:
    """The contract of the code as a file of `contracts/`."""
    return json.dumps({"release": RELEASE, "tables": contract_of(TABLES.values())}, indent=1) + "\n"


if __name__ == "__main__":
    sys.stdout.write(contract_text())
