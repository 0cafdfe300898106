"""What `walltime advice` prints."""

from collections.abc import Mapping
from typing import Any

from flows.pages.terminal.render import console, number, say
from flows.services.published.advice import omitted_groups_line
from pipeline.predict.text_advice import plural


def print_advice(found: Mapping[str, Any]) -> None:
    """Print the recommendation of each group, then notes on the whole run."""
    out = console()
    for group in found["groups"]:
        jobs, sizes = (f"{number(group[f'n_{what}s'])} {plural(what, group[f'n_{what}s'])}" for what in ("job", "size"))
        out.print(f"[bold]{say(group['label'], 300)}[/bold] ({jobs} at {sizes}; group {say(group['group_id'])})",
                  soft_wrap=True)  # fmt: skip
        for line in group["answer"] or ["No runtime is known on any count."]:
            out.print(f"  {say(line, 500)}", soft_wrap=True)
    for line in (omitted_groups_line(found["groups"], found["n_groups"]), *found["notes"]):
        if line:
            out.print(say(line, 500), soft_wrap=True)
