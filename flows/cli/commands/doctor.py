"""`walltime doctor`: checks a folder of published tables and says what to do."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import Json

Target = Annotated[
    Path,
    typer.Argument(
        metavar="[DIR|CONFIG]", readable=False, help="A folder of published tables, or the config that publishes to it."
    ),
]
MaxAge = Annotated[
    str, typer.Option("--max-age", metavar="TIME", help="The age at which tables count as old, as in 36h or 2d.")
]
Deep = Annotated[bool, typer.Option("--deep", help="Also compare every table of every version on disk with its hash.")]
WARNING_EXIT = 3
ERROR_EXIT = 4


def doctor(target: Target, max_age: MaxAge = "48h", deep: Deep = False, json: Json = False) -> None:
    """Check the manifest, the tables, leftovers, the lock, the disk and the age of published tables; change nothing.

    With a config also its logs, or its sacct. --deep reads every table of the earlier versions too.

    Exit code 0: nothing needs to be done; 3: there is a warning; 4: something is broken.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_doctor import plain_diagnosis, print_diagnosis
    from flows.services.doctor.diagnosis import diagnose
    from flows.services.doctor.findings import Level
    from flows.services.quantities import seconds

    found = diagnose(target, int(time.time()), int(seconds(max_age, "--max-age")), os.environ, is_deep=deep)
    print_json(plain_diagnosis(found)) if json else print_diagnosis(found)
    if found.worst is not None and found.worst > Level.NOTE:
        sys.exit(ERROR_EXIT if found.worst is Level.ERROR else WARNING_EXIT)
