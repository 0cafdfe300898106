"""Reads a config file without the imports of a whole run, so that reading logs starts fast."""

from pathlib import Path

from flows.services.files.os_errors import read_text
from pipeline.config_file import load_settings
from pipeline.settings import RunSettings


def config_settings(config: Path) -> RunSettings:
    """The settings of a TOML file; InputError where it cannot be read."""
    read_text(config, "a TOML config in UTF-8")
    return load_settings(config)
