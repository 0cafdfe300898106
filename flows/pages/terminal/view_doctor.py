"""What `walltime doctor`, `walltime init` and `walltime serve` print."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.pages.terminal.blocks import Block, Exact, Grid, text
from flows.services.doctor import Diagnosis
from flows.services.initialising import Initialised

_SENTENCES = {
    None: "Nothing was found",
    0: "Nothing needs to be done",
    1: "There is a warning",
    2: "Something is broken",
}
CHECKS = (text("check"), text("mode"), text("outcome", "state"), text("reason", limit=1_000))


def view_diagnosis(found: Diagnosis) -> Iterator[Block]:
    """Each finding with what to do, then one line on the whole."""
    for one in found.findings:
        yield Exact(f"{one.level.name.lower():<8} {one.check}: {one.where}")
        yield Exact(f"         found {one.found}")
        yield Exact(f"         do: {one.do}")
    named = "the config" if found.root is None else found.root
    yield Exact(f"{_SENTENCES[found.worst]}: {len(found.checked)} checks of {named}.")


def diagnosis_facts(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis in plain values for JSON."""
    findings = [
        {"check": one.check, "level": one.level.name.lower(), "where": one.where, "found": one.found, "do": one.do}
        for one in found.findings
    ]
    worst = None if found.worst is None else found.worst.name.lower()
    return {"output_dir": found.root, "worst": worst, "checked": found.checked, "findings": findings}


def view_checks(found: Mapping[str, Any]) -> Iterator[Block]:
    """Each check with its mode and outcome, and below them every finding."""
    compared = f"compared with {found['compared_with']}" if found["compared_with"] else "not compared"
    title = f"Checks of version {found['folder']} of site {found['site']}, {compared}"
    yield Grid(title, CHECKS, found["checks"])
    for check in found["checks"]:
        for one in check["findings"]:
            yield f"{check['check']}: {one['where']}: found {one['found']}, expected {one['expected']}."


def view_config(done: Initialised) -> Iterator[Block]:
    """What was found, the config that was written, and what to do next."""
    yield from (f"Found: {line}" for line in done.machine.seen)
    config = shlex.quote(str(done.config))
    yield Exact(f"Wrote {config} for the site {done.machine.name} ({done.machine.timezone})")
    yield Exact(f"Next: walltime run {config}")


def view_units(units: Sequence[Path]) -> Iterator[Block]:
    """The units of systemd that were written, and how to install them."""
    paths = " ".join(shlex.quote(str(path)) for path in units)
    yield Exact(f"Wrote {paths}")
    yield Exact(f"Install: cp {paths} /etc/systemd/system/ && systemctl daemon-reload")
    yield Exact(f"         systemctl enable --now {shlex.quote(units[-1].name)}")
