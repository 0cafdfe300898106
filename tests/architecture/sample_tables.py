"""The tables of a sample's run, for the examples in docstrings."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.run import start_run
from pipeline.settings import RunSettings, SiteSettings
from tools.plain_run import run_plain

LOG = Path(__file__).parents[2] / "data_samples" / "traps.swf"


@cache
def namespace() -> dict[str, Any]:
    """The names that examples may use: `log`, `settings`, and `tables`, every table of the sample's run by its name."""
    settings = RunSettings(site=SiteSettings(name="traps"))
    tables = {name: table for _, written, _ in run_plain(start_run(settings, [LOG])) for name, table in written.items()}
    return {"log": LOG, "settings": settings, "tables": tables, "np": np, "Path": Path}
