"""pyarrow.compute, loaded when the first of its functions is used: it wraps 300 of them, which takes 0.06 s.

`from pipeline.core import compute as pc` stands where a module is also loaded by `walltime query`, which needs none.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute  # noqa: PLC0415  (see above)

    return getattr(pyarrow.compute, name)
