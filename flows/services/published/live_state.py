"""The State that `walltime apply --every` continues from a published one; it stands beside the versions.

A version has all tables of a run, and seven are kept: one every few minutes would push out those of the nights. The
live State is a single file, replaced in one step. It counts only while the version it continues is the current one.
"""

from pathlib import Path

from pipeline.publish import Manifest

FOLDER = "live"
CONTINUES = "continues"
"""The metadata of a live State: the run id and the code of the version that it continues."""


def live_path(output_dir: Path) -> Path:
    """The path of the live State."""
    return output_dir / FOLDER / "state.parquet"


def continued(manifest: Manifest) -> str:
    """What the metadata of a State says that continues this version."""
    return f"{manifest.run_id} {manifest.code}"


def live_state(manifest: Manifest) -> Path | None:
    """The live State of this version; None where there is none, or it cannot be read."""
    path = live_path(manifest.root)
    if not path.exists():
        return None
    from pipeline.storage import read_metadata  # noqa: PLC0415  (a query without a live State does without it)

    try:
        return path if read_metadata(path).get(CONTINUES) == continued(manifest) else None
    except (OSError, ValueError):
        return None
