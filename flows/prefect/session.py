"""Prefect flows on the command line: settings before Prefect is imported, and failures in one sentence."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.prefect.local_api import begin_local_api, startup_timeout_s
from flows.prefect.settings import set_console_level, set_prefect_home
from flows.services.run.work_folder import WORK
from pipeline.core.errors import WalltimeError


@contextmanager
def prefect_session(output_dir: Path, *, verbose: bool, instead: str = "--plain") -> Iterator[Callable[[], None]]:
    """Import a flow inside this context, call what the context gives, which waits for the API, then call the flow.

    `instead` is the command without Prefect, named in a failure.
    """
    set_prefect_home(output_dir / WORK / "prefect")
    set_console_level(verbose=verbose)
    api = begin_local_api(os.environ, Path())

    def wait() -> None:
        if api is not None:
            api.wait(startup_timeout_s(os.environ))

    try:
        yield wait
    except (WalltimeError, OSError):
        raise
    except RuntimeError as error:
        if not re.search(r"\b(Prefect|reach) API\b", str(error)):
            raise
        reason = str(error).splitlines()[0].rstrip(".")
        raise WalltimeError(f"Prefect: {reason}; {instead} does without it.") from error
