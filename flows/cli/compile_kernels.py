"""`python -m flows.cli.compile_kernels CONFIG`: what `make setup` does last, so that no later command compiles.

A kernel is compiled for the types that it is called with, so the steps of a run are computed, in two processes; their
tables are dropped.
"""

import sys
import tempfile
import time
from pathlib import Path


def main() -> None:
    """Compute the steps, and print how long it took; kernels of a step that fails are compiled when they are needed."""
    import typer

    from flows.pages.terminal.activity import showing_activity
    from flows.services.run.prepare import prepare
    from flows.services.run.running import run_steps, step_executor
    from pipeline.errors import WalltimeError
    from pipeline.settings import ExecutionSettings

    run = prepare(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory(prefix="walltime-kernels-") as folder, showing_activity("setup") as activity:
        try:
            with step_executor(ExecutionSettings(processes=2)) as submit:
                run_steps(run, Path(folder), submit)
        except WalltimeError as error:
            typer.echo(f"Some kernels are not compiled yet; the first run does that. {error}", err=True)
        else:
            typer.echo(f"Compiled kernels in {time.monotonic() - activity.began:.0f} s.", err=True)


if __name__ == "__main__":
    main()
