"""Prefect flows on the command line: settings before Prefect is imported, and failures in one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.prefect.settings import set_console_level, set_prefect_home
from flows.services.run.work_folder import WORK
from pipeline.core.errors import WalltimeError


@contextmanager
def prefect_session(output_dir: Path, *, verbose: bool, instead: str = "--plain") -> Iterator[None]:
    """Import and call a flow inside this context; `instead` is the command without Prefect, named in a failure."""
    set_prefect_home(output_dir / WORK / "prefect")
    set_console_level(verbose=verbose)
    try:
        yield
    except (WalltimeError, OSError):
        raise
    except RuntimeError as error:
        if not re.search(r"\b(Prefect|reach) API\b", str(error)):
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise WalltimeError(f"Prefect: {reason}; {instead} does without it.") from error
