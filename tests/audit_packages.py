"""Runs pip-audit over a lock file for `make check`, and says which packages could not be audited.

A known vulnerability is a failure. An index that does not answer, or a mirror without advisories, is none: the check
ends with exit code 0 offline, and its sentence says that nothing was audited. A release needs a check with an answer.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

TIMEOUT_S = 900
_SHOWN = 5


def verdict(found: Mapping[str, Any]) -> tuple[int, str]:
    """The exit code, and one sentence or line per vulnerability, for the JSON that pip-audit prints.

    1: some have a known vulnerability; 0: none of those that could be audited has.
    """
    packages: Sequence[Mapping[str, Any]] = found.get("dependencies", [])
    faults = [(one, fault) for one in packages for fault in one.get("vulns", [])]
    if faults:
        lines = [
            f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'none'}"
            for one, fault in faults
        ]
        return 1, "\n".join(lines)
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if skipped or not packages:
        listed = ", ".join(skipped[:_SHOWN]) + (", ..." if len(skipped) > _SHOWN else "")
        told = f"no advisories on {len(skipped)} of {len(packages)} packages ({listed or 'none were named'})"
        return 0, f"NOT AUDITED: found {told}, expected an answer of pypi.org on each; run it where pypi.org answers."
    return 0, f"pip-audit: {len(packages)} packages, none with a known vulnerability."


def unreachable(errors: str) -> str:
    """One sentence for a pip-audit that printed no JSON, from what it wrote on stderr."""
    lines = [line for line in errors.splitlines() if line.strip()]
    reason = lines[-1][:300].rstrip(".") if lines else "no output"
    return f"NOT AUDITED: found no database of advisories ({reason}), expected an answer of pypi.org; run it there."


def audit(program: str, lock: str) -> tuple[int, str]:
    """Run the program over the lock file without installing a package; see `verdict`."""
    words = ["--requirement", lock, "--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off"]
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    try:
        return verdict(json.loads(done.stdout))
    except ValueError:
        return 0, unreachable(done.stderr)


if __name__ == "__main__":
    code, sentence = audit(*sys.argv[1:])
    sys.stderr.write(f"{sentence}\n")
    sys.exit(code)
