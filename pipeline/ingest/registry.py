"""Lists every log format: one line each, which names the file of its reader."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from pipeline.ingest.reader import Reader

FORMATS = {
    "swf": "pipeline.ingest.formats.swf.reader:SWF",
    "pbs": "pipeline.ingest.formats.pbs.reader:PBS",
    "sacct_json": "pipeline.ingest.formats.sacct.json_reader:SACCT_JSON",
    "sacct": "pipeline.ingest.formats.sacct.reader:SACCT",
}
"""Where each format's Reader stands, as module:name. `auto` asks them in this order."""


class _Readers(Mapping[str, Reader]):
    """Readers by name, each loaded when it is asked for: another format's kernels take half a second to wake up."""

    def __getitem__(self, name: str) -> Reader:
        module, _, attribute = FORMATS[name].partition(":")
        return cast(Reader, getattr(import_module(module), attribute))

    def __iter__(self) -> Iterator[str]:
        return iter(FORMATS)

    def __len__(self) -> int:
        return len(FORMATS)


READERS = _Readers()
"""Every log format, by the name `ingest.format` gives it; `auto` asks them in this order."""
