"""Every log format: one line here, and the file it names."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from pipeline.ingest.reader import Reader

_PLACES = {
    "swf": ("swf.reader", "SWF"),
    "pbs": ("pbs.reader", "PBS"),
    "sacct_json": ("sacct.json_reader", "SACCT_JSON"),
    "sacct": ("sacct.reader", "SACCT"),
}


class _Readers(Mapping[str, Reader]):
    """Readers by name, each loaded when it is asked for: another format's kernels take half a second to wake up."""

    def __getitem__(self, name: str) -> Reader:
        module, attribute = _PLACES[name]
        return cast(Reader, getattr(import_module(f"pipeline.ingest.formats.{module}"), attribute))

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


READERS = _Readers()
"""Every log format, by the name `ingest.format` gives it; `auto` asks them in this order."""
