"""`python -m tools.sbom requirements.lock pyproject.toml`: the locked packages as a CycloneDX 1.6 document on stdout.

The same lock gives the same bytes: the serial number is a hash of the content, and there is no time of making. The lock
also has the tools of the tests, which an installed Walltime does not need. Specification: ECMA-424, CycloneDX 1.6.
"""

import json
import re
import sys
import tomllib
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(?:\[[\w,.-]+\])?==(?P<version>[^\s;\\]+)(?: *; *(?P<marker>[^\\]+?))? *$"
)
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def sbom(lock: str, project: dict[str, Any]) -> dict[str, Any]:
    """The CycloneDX document of a lock's text and the table `project` of pyproject.toml; ValueError for a bad line."""
    root = _component("application", project["name"], project["version"])
    root["licenses"] = [{"license": {"id": project["license"]}}]
    components = sorted(locked(lock), key=lambda one: (one["name"], one["version"]))
    content = json.dumps([root, components], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, content)}",
        "version": 1,
        "metadata": {"component": root},
        "components": components,
    }


def locked(lock: str) -> Iterator[dict[str, Any]]:
    """The component of each package that a lock pins, with the hashes of its files and its condition as properties."""
    for line in lock.replace("\\\n", " ").splitlines():
        words = line.split("#", 1)[0].strip()
        if not words:
            continue
        found = _PINNED.match(words.split(" --hash", 1)[0])
        hashes = _HASH.findall(words)
        if found is None or not hashes:
            raise ValueError(f"found {line[:80]!r}, expected name==version with hashes, as uv export writes it")
        # CycloneDX has one hash of a component; a package has several files, one of which is installed.
        properties = [{"name": "walltime:lock:hash", "value": value} for value in hashes]
        if found["marker"]:
            properties.append({"name": "walltime:lock:marker", "value": found["marker"]})
        yield _component("library", found["name"], found["version"]) | {"properties": properties}


def _component(kind: str, name: str, version: str) -> dict[str, Any]:
    # A purl of PyPI has the normalised name (purl-spec, type pypi).
    purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{version}"
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def main(arguments: Sequence[str]) -> None:
    """Print the document of a lock and a pyproject.toml."""
    lock, project = (Path(name).read_text(encoding="utf-8") for name in arguments)
    print(json.dumps(sbom(lock, tomllib.loads(project)["project"]), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
