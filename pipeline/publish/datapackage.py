"""`datapackage.json` beside the tables of a version: a Data Package (version 2.0, datapackage.org) of what they hold.

It names each file with bytes, SHA-256, rows, columns, units and key, and what the tables were made from: the logs with
their SHA-256, the settings and the code. All of it comes from the version's manifest.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pipeline.errors import printable
from pipeline.publish.manifest import ColumnEntry, Manifest, TableEntry, finite
from pipeline.schema import TableKind
from pipeline.tables import TABLES

DATAPACKAGE = "datapackage.json"
_PROFILES = "https://datapackage.org/profiles/2.0"
_TYPES = {"string": "string", "int64": "integer", "double": "number", "bool": "boolean"}
_TEXT_CHARS = 4_000


def package_text(manifest: Manifest) -> str:
    """The descriptor of a version's tables as ASCII JSON."""
    package = {
        "$schema": f"{_PROFILES}/datapackage.json",
        "title": f"Runtimes of the jobs of {printable(manifest.site)}",
        "description": "Tables that Walltime made from a cluster's accounting log.",
        "created": datetime.fromtimestamp(manifest.created_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "sources": [{"title": printable(log.name, _TEXT_CHARS), "sha256": log.sha256} for log in manifest.logs],
        "walltime": {
            "site": printable(manifest.site, _TEXT_CHARS),
            "run_id": manifest.run_id,
            "created_s": manifest.created_s,
            "code": manifest.code,
            "settings": _printable_texts(finite(manifest.settings)),
        },
        "resources": [_resource(TABLES[name], entry) for name, entry in manifest.tables.items()],
    }
    return json.dumps(package, indent=1) + "\n"


def _resource(kind: TableKind, entry: TableEntry) -> dict[str, Any]:
    return {
        "$schema": f"{_PROFILES}/dataresource.json",
        "name": kind.name,
        "type": "table",
        "path": f"{kind.name}.parquet",
        "format": "parquet",
        "mediatype": "application/vnd.apache.parquet",
        "description": kind.meaning,
        "bytes": entry.bytes,
        "hash": f"sha256:{entry.sha256}",
        "rows": entry.rows,
        "schema": _schema(entry),
    }


def _schema(entry: TableEntry) -> dict[str, Any]:
    """The table schema. A key with nullable columns is a unique key, because a primary key has none."""
    nullable = {column.name for column in entry.columns if column.nullable}
    key = {"uniqueKeys": [list(entry.key)]} if nullable & set(entry.key) else {"primaryKey": list(entry.key)}
    return {"$schema": f"{_PROFILES}/tableschema.json", "fields": [_field(one) for one in entry.columns], **key}


def _field(column: ColumnEntry) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": "array" if column.type.startswith("list") else _TYPES.get(column.type, "any"),
        "description": column.meaning,
        "constraints": {"required": not column.nullable},
        "unit": column.unit,
        "arrowType": column.type,
        "nulls": column.nulls,
    }


def _printable_texts(value: Any) -> Any:
    """Plain values whose texts have no control, format or surrogate characters."""
    if isinstance(value, Mapping):
        return {printable(str(name)): _printable_texts(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_printable_texts(one) for one in value]
    return printable(value, _TEXT_CHARS) if isinstance(value, str) else value
