"""What `walltime init` and `walltime serve` print."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from flows.pages.terminal.render import console, say
from flows.services.init.initialising import Initialised


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
