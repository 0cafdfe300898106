"""What Prefect shows of a site's nightly runs: names, tags and keys of artifacts, so that two sites never share one."""

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from flows.services.run.prepare import run_settings
from pipeline.errors import WalltimeError, printable

_SLUG_CHARS = 40
_MARK_CHARS = 6


def site_slug(site: str) -> str:
    """The site's name in lowercase letters, digits and dashes; a digest ends it where it had to be changed."""
    slug = re.sub("[^a-z0-9]+", "-", site.lower()).strip("-")[:_SLUG_CHARS].strip("-")
    if slug == site:
        return slug
    mark = hashlib.sha256(site.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{slug}-{mark}".strip("-")


def artifact_key(site: str, name: str) -> str:
    """The key of one of a site's artifacts; Prefect accepts lowercase letters, digits and dashes."""
    return f"walltime-{site_slug(site)}-{name.replace('_', '-')}"


def site_tags(site: str) -> list[str]:
    """The tags of a site's deployment and of its runs."""
    return ["walltime", f"site:{printable(site)}"]


def nightly_run_name(parameters: Mapping[str, Any], scheduled: datetime) -> str:
    """The site and the time of a run, as in `riverbend 2026-11-22 02:15`: the site's time at the scheduled start.

    A config that cannot be read gives its file's name and the time in UTC; the run itself reports the fault.
    """
    config = Path(str(parameters.get("config", "")))
    try:
        settings = run_settings(config, parameters.get("site"))
        name, zone = settings.site.name, settings.site.timezone
    except (WalltimeError, OSError, ValueError):
        name, zone = config.stem, "UTC"
    return f"{printable(name)} {scheduled.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M}"
