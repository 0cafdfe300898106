"""`python -m tools.sbom requirements.lock pyproject.toml WHEEL`: a wheel and the locked packages as CycloneDX 1.6.

The wheel is the component that is described, with the hash of its file. The same lock and wheel give the same bytes:
the serial number is a hash of the content, and there is no time of making. The lock also has the tools of the tests,
which an installed Walltime does not need. Specification: ECMA-424, CycloneDX 1.6.
"""

import hashlib
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


def sbom(lock: str, project: dict[str, Any], wheel: Path) -> dict[str, Any]:
    """The CycloneDX document of a wheel, a lock's text and the table `project` of pyproject.toml.

    ValueError for a bad line of the lock, and for a wheel of another name or version.
    """
    if not wheel.name.startswith(f"{project['name']}-{project['version']}-"):
        raise ValueError(f"found the wheel {wheel.name!r}, expected one of {project['name']} {project['version']}")
    root = _component("application", project["name"], project["version"])
    root["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    root["properties"] = [{"name": "walltime:wheel:file", "value": wheel.name}]
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
    """Print the document of a lock, a pyproject.toml and a wheel."""
    *texts, wheel = map(Path, arguments)
    lock, project = (path.read_text(encoding="utf-8") for path in texts)
    print(json.dumps(sbom(lock, tomllib.loads(project)["project"], wheel), indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
