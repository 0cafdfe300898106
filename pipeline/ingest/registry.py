"""Lists every log format: one line each, with a function that imports its reader."""

from collections.abc import Callable, Iterator, Mapping

from pipeline.ingest.reader import Reader

# Imported when they are asked for: another format's kernels take half a second to wake up.


def _swf() -> Reader:
    from pipeline.ingest.formats.swf import SWF  # noqa: PLC0415

    return SWF


def _pbs() -> Reader:
    from pipeline.ingest.formats.pbs import PBS  # noqa: PLC0415

    return PBS


def _sacct() -> Reader:
    from pipeline.ingest.formats.sacct import SACCT  # noqa: PLC0415

    return SACCT


def _sacct_json() -> Reader:
    from pipeline.ingest.formats.sacct.json_reader import SACCT_JSON  # noqa: PLC0415

    return SACCT_JSON


FORMATS: Mapping[str, Callable[[], Reader]] = {"swf": _swf, "pbs": _pbs, "sacct_json": _sacct_json, "sacct": _sacct}
"""By the name that `ingest.format` gives it (LOG_FORMATS of the settings), how each format's Reader is imported."""


class _Readers(Mapping[str, Reader]):
    """Readers by name, each imported when it is asked for."""

    def __getitem__(self, name: str) -> Reader:
        return FORMATS[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(FORMATS)

    def __len__(self) -> int:
        return len(FORMATS)


READERS = _Readers()
"""Every log format; `auto` asks them in this order."""
