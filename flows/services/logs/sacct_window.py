"""The logs that ingest reads: the given paths, or sacct's records of a time window (--live, --since, --until)."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from flows.services.quantities import instant_s, seconds
from pipeline.errors import InputError, printable
from pipeline.ingest.live import Window, live
from pipeline.ingest.sources import Source
from pipeline.settings import IngestSettings, RunSettings, SiteSettings

LIVE_DAYS = 7
"""Days back from its end that a window begins, where neither --since nor source.since says."""

_DAY_S = 86_400
_TOKEN_BYTES = 4

Reading = tuple[Sequence[Path | Source], SiteSettings, IngestSettings]


@contextmanager
def log_sources(
    paths: Sequence[str], is_live: bool, since: str | None, until: str | None, settings: RunSettings
) -> Iterator[Reading]:
    """The logs to read, and their settings: the given paths, or sacct's records of the window, but not both."""
    if not is_live:
        if since or until:
            raise InputError("--since and --until", "no --live", "--live beside them", "files are read whole")
        if not paths:
            raise InputError("the command line", "no log", "PATH... or --live")
        yield [Path(path) for path in paths], settings.site, settings.ingest
        return
    if paths:
        raise InputError("the command line", f"--live and {printable(paths[0])}", "one of the two")
    with sacct_records(settings, time_window(since, until, settings, int(time.time()))) as reading:
        yield reading


@contextmanager
def sacct_records(settings: RunSettings, window: Window) -> Iterator[Reading]:
    """sacct's records of a window, with the settings under which ingest reads them."""
    token, cluster = os.urandom(_TOKEN_BYTES), settings.source.cluster
    with live(settings.site, settings.ingest, window, os.environ, token, cluster) as found:
        yield [found.source], found.site, found.settings


def time_window(since: str | None, until: str | None, settings: RunSettings, now_s: int) -> Window:
    """The window from `since` (default: the source's, else some days before its end) to `until` (default: now).

    Texts are ISO dates or instants, in the site's zone where they name none; the source's `since` may be a duration.
    UTC epoch seconds; ConfigError or InputError for a text that is neither.
    """
    zone = settings.site.timezone
    until_s = instant_s("--until", until, zone) if until else now_s
    if since:
        return Window(instant_s("--since", since, zone), until_s)
    return Window(_first_s(settings, until_s), until_s)


def _first_s(settings: RunSettings, until_s: int) -> int:
    since = settings.source.since
    if since is None:
        return until_s - LIVE_DAYS * _DAY_S
    try:
        return until_s - int(seconds(since, "source.since"))
    except InputError:
        return instant_s("source.since", since, settings.site.timezone)
