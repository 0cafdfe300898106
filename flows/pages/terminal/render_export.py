"""What `walltime export` prints."""

from flows.pages.terminal.render import console, say
from flows.services.export.exporting import Exported


def print_exported(exported: Exported) -> None:
    """Print what was written, from which run, and how to install it."""
    out = console()
    names = f", {exported.n_names:,} job names" if exported.n_names else ""
    out.print(f"Run {exported.run_id} of site {say(exported.site)}: {exported.n_estimates:,} estimates{names}")
    for path, n_bytes in exported.files.items():
        out.print(f"Wrote {say(path, 1000)} ({n_bytes:,} bytes)", soft_wrap=True)
    if exported.install:
        out.print(f"\n{exported.install}", soft_wrap=True, markup=False, highlight=False)
