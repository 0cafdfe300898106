"""The logs that ingest reads: the given paths, or sacct's records of a time window (--live, --since, --until)."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows.services.quantities import instant_s
from pipeline.core.errors import InputError
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.text import printable
from pipeline.ingest.formats.sacct.live import Window, live
from pipeline.ingest.sources import Source

_DAY_S = 86_400
_TOKEN_BYTES = 4

Reading = tuple[Sequence[Path | Source], SiteSettings, IngestSettings]


@contextmanager
def log_sources(
    paths: Sequence[str], is_live: bool, since: str | None, until: str | None, site: SiteSettings, how: IngestSettings
) -> Iterator[Reading]:
    """The logs to read, and their settings: the given paths, or sacct's records of the window, but not both."""
    if not is_live:
        if since or until:
            raise InputError("--since and --until", "no --live", "--live beside them", "files are read whole")
        if not paths:
            raise InputError("the command line", "no log", "PATH... or --live")
        yield [Path(path) for path in paths], site, how
        return
    if paths:
        raise InputError("the command line", f"--live and {printable(paths[0])}", "one of the two")
    window = time_window(since, until, site.timezone, how.sacct_days, int(time.time()))
    with live(site, how, window, os.environ, os.urandom(_TOKEN_BYTES)) as found:
        yield [found.source], found.site, found.settings


def time_window(since: str | None, until: str | None, timezone: str, days: int, now_s: int) -> Window:
    """The window from `since` (default: `days` before its end) to `until` (default: now), in UTC epoch seconds.

    Both are ISO dates or instants, in the site's zone where they name none. ConfigError or InputError otherwise.
    """
    until_s = instant_s("--until", until, timezone) if until else now_s
    since_s = instant_s("--since", since, timezone) if since else until_s - days * _DAY_S
    return Window(since_s, until_s)
