"""What `walltime doctor`, `walltime init` and `walltime serve` print."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.pages.terminal.render import console, grid, say
from flows.services.doctor import Diagnosis
from flows.services.initialising import Initialised

_CHARS = 1_000
_SENTENCES = {
    None: "Nothing was found",
    0: "Nothing needs to be done",
    1: "There is a warning",
    2: "Something is broken",
}


def print_diagnosis(found: Diagnosis) -> None:
    """Print each finding with what to do, then one line on the whole."""
    out = console()
    for one in found.findings:
        out.print(f"{one.level.name.lower():<8} {say(one.check)}: {say(one.where, _CHARS)}", soft_wrap=True)
        out.print(f"         found {say(one.found, _CHARS)}", soft_wrap=True)
        out.print(f"         do: {say(one.do, _CHARS)}", soft_wrap=True)
    named = "the config" if found.root is None else say(found.root, _CHARS)
    out.print(f"{_SENTENCES[found.worst]}: {len(found.checked)} checks of {named}.", soft_wrap=True)


def plain_diagnosis(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis in plain values for JSON."""
    return {
        "output_dir": None if found.root is None else str(found.root),
        "worst": None if found.worst is None else found.worst.name.lower(),
        "checked": list(found.checked),
        "findings": [
            {"check": one.check, "level": one.level.name.lower(), "where": one.where, "found": one.found, "do": one.do}
            for one in found.findings
        ],
    }


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


def print_config(done: Initialised) -> None:
    """Print what was found, the config that was written, and what to do next."""
    out = console()
    for line in done.machine.seen:
        out.print(f"Found: {say(line, 1000)}", soft_wrap=True)
    config = say(shlex.quote(str(done.config)), 1000)
    out.print(f"Wrote {config} for the site {say(done.machine.name)} ({done.machine.timezone})", soft_wrap=True)
    out.print(f"Next: walltime run {config}", soft_wrap=True)


def print_units(units: Sequence[Path]) -> None:
    """Print the units of systemd that were written, and how to install them."""
    out = console()
    paths = " ".join(shlex.quote(str(path)) for path in units)
    timer = shlex.quote(units[-1].name)
    out.print(f"Wrote {say(paths, 2000)}", soft_wrap=True)
    out.print(f"Install: cp {say(paths, 2000)} /etc/systemd/system/ && systemctl daemon-reload", soft_wrap=True)
    out.print(f"         systemctl enable --now {timer}", soft_wrap=True)


def print_served(site: str, deployment: str, schedule: str, api: str) -> None:
    """Print what is being served; the command goes on."""
    text = f"Serving nightly/{deployment} for the site {say(site)}: {say(schedule)}, known to {say(api)}"
    console().print(text, soft_wrap=True, markup=False)
