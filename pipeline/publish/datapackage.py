"""`datapackage.json` beside the tables of a version: a Data Package (version 2.0, datapackage.org) of what they hold.

It names each file with bytes, SHA-256, rows, columns, units and key, and what the tables were made from: the logs with
their SHA-256, the settings and the code. Its bytes depend on these and on the time that is passed in.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.core.dataclass_reader import FieldError, read_dataclass
from pipeline.core.errors import InputError
from pipeline.core.table_kind import TableKind
from pipeline.core.tables import TABLES
from pipeline.core.text import printable
from pipeline.publish.manifest import RunFacts, finite
from pipeline.publish.table_facts import ColumnFacts, TableFacts

DATAPACKAGE = "datapackage.json"
_PROFILES = "https://datapackage.org/profiles/2.0"
_TYPES = {"string": "string", "int64": "integer", "double": "number", "bool": "boolean"}
_TEXT_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """What a version says of itself: its site, and the facts of its tables."""

    site: str
    run_id: str
    created_s: int
    tables: dict[str, TableFacts]


def package_text(
    files: Mapping[str, Path],
    digests: Mapping[str, str],
    tables: Mapping[str, TableFacts],
    facts: RunFacts,
    created_s: int,
) -> str:
    """The descriptor of some tables as ASCII JSON; files, their SHA-256 and their facts are by table."""
    package = {
        "$schema": f"{_PROFILES}/datapackage.json",
        "title": f"Runtimes of the jobs of {printable(facts.site)}",
        "description": "Tables that Walltime made from a cluster's accounting log.",
        "created": datetime.fromtimestamp(created_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "sources": [{"title": printable(name, _TEXT_CHARS), "sha256": sha} for name, sha in facts.logs],
        "walltime": {
            "site": printable(facts.site, _TEXT_CHARS),
            "run_id": facts.run_id,
            "created_s": created_s,
            "code": facts.code,
            "settings": _printable_texts(finite(facts.settings)),
        },
        "resources": [_resource(TABLES[name], path, digests[name], tables[name]) for name, path in files.items()],
    }
    return json.dumps(package, indent=1) + "\n"


def _resource(kind: TableKind, path: Path, sha256: str, facts: TableFacts) -> dict[str, Any]:
    return {
        "$schema": f"{_PROFILES}/dataresource.json",
        "name": kind.name,
        "type": "table",
        "path": f"{kind.name}.parquet",
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "description": kind.meaning,
        "bytes": path.stat().st_size,
        "hash": f"sha256:{sha256}",
        "rows": facts.rows,
        "schema": _schema(kind, facts),
    }


def _schema(kind: TableKind, facts: TableFacts) -> dict[str, Any]:
    """The table schema. A key with nullable columns is a unique key, because a primary key has none."""
    nullable = {column.name for column in kind.columns if not column.is_required}
    key = {"uniqueKeys": [list(kind.key)]} if nullable & set(kind.key) else {"primaryKey": list(kind.key)}
    meanings = {column.name: column.meaning for column in kind.columns}
    fields = [_field(name, one, meanings.get(name, "")) for name, one in facts.columns.items()]
    return {"$schema": f"{_PROFILES}/tableschema.json", "fields": fields, **key}


def _field(name: str, facts: ColumnFacts, meaning: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "array" if facts.type.startswith("list") else _TYPES.get(facts.type, "any"),
        "description": meaning,
        "constraints": {"required": not facts.nullable},
        "unit": facts.unit,
        "arrowType": facts.type,
        "nulls": facts.nulls,
    }


def _printable_texts(value: Any) -> Any:
    """Plain values whose texts have no control, format or surrogate characters."""
    if isinstance(value, Mapping):
        return {printable(str(name)): _printable_texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_printable_texts(one) for one in value]
    return printable(value, _TEXT_CHARS) if isinstance(value, str) else value


def read_package(folder: Path) -> PackageFacts:
    """The facts in a version's datapackage.json; InputError where it is missing or is none of Walltime's."""
    path = folder / DATAPACKAGE
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
        own = plain["walltime"]
        tables = {one["name"]: _plain_table(one) for one in plain["resources"]}
        facts = read_dataclass(PackageFacts, {**own, "tables": tables})
    except (FileNotFoundError, NotADirectoryError):
        found = "no such file"
    except (OSError, ValueError, KeyError, TypeError, AttributeError, FieldError) as error:
        found = f"a file that cannot be used ({type(error).__name__}: {printable(str(error))})"
    else:
        others = [one for one in plain["resources"] if one.get("path") != f"{one['name']}.parquet"]
        if not others:
            return facts
        found = f"table {printable(str(others[0]['name']))} at {printable(str(others[0].get('path')))}"
    raise InputError(printable(str(path)), found, "the descriptor of the tables in the files beside it")


def _plain_table(resource: Mapping[str, Any]) -> dict[str, Any]:
    schema = resource["schema"]
    columns = {
        field["name"]: {
            "type": field["arrowType"],
            "unit": field["unit"],
            "nullable": not field["constraints"]["required"],
            "nulls": field["nulls"],
        }
        for field in schema["fields"]
    }
    key = schema["primaryKey"] if "primaryKey" in schema else schema["uniqueKeys"][0]
    return {"rows": resource["rows"], "key": key, "columns": columns}
