"""From `--live --since --until` to what ingest reads: the one place that asks for the clock and the environment."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from pipeline.core.errors import ConfigError, InputError
from pipeline.core.settings import IngestSettings, SiteSettings
from pipeline.core.text import printable
from pipeline.ingest.sacct_live import Window, live
from pipeline.ingest.sources import Source

_DAY_S = 86_400
_TOKEN_BYTES = 4

Reading = tuple[Sequence[Path | Source], SiteSettings, IngestSettings]


@contextmanager
def reading(
    paths: Sequence[str], is_live: bool, since: str | None, until: str | None, site: SiteSettings, how: IngestSettings
) -> Iterator[Reading]:
    """What ingest reads, and under which settings: the paths given, or sacct's records of the window, not both."""
    if not is_live:
        if since or until:
            raise InputError("--since and --until", "no --live", "--live beside them", "files are read whole")
        if not paths:
            raise InputError("the command line", "no log", "PATH... or --live")
        yield [Path(path) for path in paths], site, how
        return
    if paths:
        raise InputError("the command line", f"--live and {printable(paths[0])}", "one of the two")
    window = window_of(since, until, site.timezone, how.sacct_days, int(time.time()))
    with live(site, how, window, os.environ, os.urandom(_TOKEN_BYTES)) as found:
        yield [found.source], found.site, found.settings


def window_of(since: str | None, until: str | None, timezone: str, days: int, now_s: int) -> Window:
    """The window from `since` (default: `days` before its end) to `until` (default: now), in UTC epoch seconds.

    Both are ISO dates or instants, of the site's zone where they name none. ConfigError or InputError for others.
    """
    until_s = _instant("--until", until, timezone) if until else now_s
    since_s = _instant("--since", since, timezone) if since else until_s - days * _DAY_S
    return Window(since_s, until_s)


def _instant(option: str, said: str, timezone: str) -> int:
    try:
        instant = datetime.fromisoformat(said)
        zoned = instant if instant.tzinfo else instant.replace(tzinfo=_zone(timezone))
        return int(zoned.astimezone(UTC).timestamp())
    except (ValueError, OverflowError):
        raise InputError(option, f"'{printable(said)}'", "a date as in 2026-01-31 or 2026-01-31T08:00") from None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError):
        raise ConfigError("site.timezone", f"'{printable(name)}'", "an IANA zone, as in Europe/Stockholm") from None
