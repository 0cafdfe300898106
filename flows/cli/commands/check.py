"""`walltime check`: the checks of a night, on the published version."""

import sys
import time

from flows.cli.options import Folder, Json


def check(folder: Folder, json: Json = False) -> None:
    """Check the published tables as a run does before it publishes; exit code 4 where a check that blocks fails."""
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_checks import print_checks
    from flows.services.run.checking import HELD_EXIT_CODE, check_published

    found = check_published(folder, time.time())
    print_json(found) if json else print_checks(found)
    sys.exit(0 if found["passed"] else HELD_EXIT_CODE)
