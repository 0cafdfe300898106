"""Where commands look for published tables: the folder that is given, that of a given config, or the default one."""

from pathlib import Path

from pipeline.errors import InputError, printable
from pipeline.publish.manifest import MANIFEST

DEFAULT_FOLDER = Path("out")
"""The folder that is meant where none is given: the default of `output_dir` in a config."""


def published_folder(given: Path | None) -> Path:
    """The folder of published tables that a command line means; InputError for a config that cannot be used.

    A config (.toml) stands for its output_dir. Without a path it is DEFAULT_FOLDER, or the only folder in it that holds
    published tables, as `out/sample` after `make run`; InputError where there are several.
    """
    if given is None:
        return _default_folder()
    if given.suffix == ".toml" and given.is_file():
        from flows.services.files.config import config_settings  # noqa: PLC0415  (a query without a config starts faster)

        return Path(config_settings(given).output_dir)
    return given


def _default_folder() -> Path:
    if (DEFAULT_FOLDER / MANIFEST).exists():
        return DEFAULT_FOLDER
    below = sorted(path.parent for path in DEFAULT_FOLDER.glob(f"*/{MANIFEST}"))
    if len(below) > 1:
        folders = ", ".join(printable(str(folder)) for folder in below)
        raise InputError("the command line", f"no DIR, and published tables in {folders}", "one of these folders")
    return below[0] if below else DEFAULT_FOLDER
