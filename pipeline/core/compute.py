"""Imports pyarrow.compute when one of its functions is first used, because the import takes 0.06 s.

Modules that `walltime query` also loads, and that it needs none of these functions of, import this module as `pc`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    import pyarrow.compute  # noqa: PLC0415  (see above)

    return getattr(pyarrow.compute, name)
