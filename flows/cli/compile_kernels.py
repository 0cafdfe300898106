"""`python -m flows.cli.compile_kernels CONFIG`: what `make setup` does last, so that no later command compiles."""

import sys
import time
from pathlib import Path


def main() -> None:
    """Print how far it is; kernels that could not be compiled now are compiled when they are needed."""
    import typer

    from flows.services.run.compile_kernels import compile_kernels
    from flows.services.run.prepare import prepare
    from pipeline.run import STEPS

    begun, n_done, total = time.monotonic(), 0, len(STEPS)
    run, _ = prepare(Path(sys.argv[1]))
    for n_done in compile_kernels(run):
        _show(f"Compiling kernels, once: {n_done} of {total} steps", ends=n_done == total)
    if n_done < total:
        typer.echo("Some kernels are not compiled yet; the first run does that.", err=True)
    else:
        typer.echo(f"Compiled kernels in {time.monotonic() - begun:.0f} s.", err=True)


def _show(line: str, *, ends: bool) -> None:
    """One line that is written over on a terminal; in a file, one at the start and one at the end are enough."""
    import typer

    if sys.stderr.isatty():
        typer.echo(f"\r{line}", nl=ends, err=True)
    elif ends or " 1 of" in line:
        typer.echo(line, err=True)


if __name__ == "__main__":
    main()
