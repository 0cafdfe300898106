"""What `walltime doctor` prints."""

from typing import Any

from flows.pages.terminal.render import console, say
from flows.services.doctor.diagnosis import Diagnosis

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
