"""What `walltime check` prints."""

from collections.abc import Mapping
from typing import Any

from flows.pages.terminal.render import console, grid, say

_TEXT_CHARS = 1_000


def print_checks(found: Mapping[str, Any]) -> None:
    """Print each check with its mode and outcome, and below them every finding."""
    out = console()
    version = f"Checks of version {say(found['folder'])} of site {say(found['site'])}"
    compared = f"compared with {say(found['compared_with'])}" if found["compared_with"] else "not compared"
    rows = [
        (say(one["check"]), say(one["mode"]), say(one["state"]), say(one["reason"], _TEXT_CHARS))
        for one in found["checks"]
    ]
    out.print(grid(f"{version}, {compared}", ("check", "mode", "outcome", "reason"), rows, texts=4))
    for one in found["checks"]:
        for finding in one["findings"]:
            where, seen, expected = (say(finding[name], _TEXT_CHARS) for name in ("where", "found", "expected"))
            out.print(f"{say(one['check'])}: {where}: found {seen}, expected {expected}.", soft_wrap=True)
