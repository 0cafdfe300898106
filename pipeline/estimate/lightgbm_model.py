"""A LightGBM model read from its text by LightGBM's own library: its Python package takes half a second to load."""

import ctypes
import weakref
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.core.arrays import Floats

FLOAT64, ROW_MAJOR, NORMAL, ALL_TREES = 1, 1, 0, -1
"""Constants of LightGBM's C interface."""


class Model:
    """A model in the library's memory, which is given back with the object."""

    def __init__(self, text: str) -> None:
        self._handle = ctypes.c_void_p()
        n_trees = ctypes.c_int()
        _call("LGBM_BoosterLoadModelFromString", text.encode(), ctypes.byref(n_trees), ctypes.byref(self._handle))
        weakref.finalize(self, _library().LGBM_BoosterFree, self._handle)

    def predict(self, inputs: Floats) -> Floats:
        """One number a row of (rows, columns) inputs; NaN is a value like others."""
        rows = np.ascontiguousarray(inputs, np.float64)
        found, n_found = np.empty(len(rows)), ctypes.c_int64()
        _call(
            "LGBM_BoosterPredictForMat", self._handle, rows.ctypes.data_as(ctypes.c_void_p), FLOAT64, *rows.shape,
            ROW_MAJOR, NORMAL, 0, ALL_TREES, b"num_threads=1", ctypes.byref(n_found),
            found.ctypes.data_as(ctypes.c_void_p),
        )  # fmt: skip
        return found


def _call(name: str, *arguments: Any) -> None:
    library = _library()
    if getattr(library, name)(*(ctypes.c_int(one) if isinstance(one, int) else one for one in arguments)):
        raise RuntimeError(f"LightGBM: {library.LGBM_GetLastError().decode(errors='replace')}")


@cache
def _library() -> Any:
    spec = find_spec("lightgbm")
    folders = spec.submodule_search_locations if spec else None
    found = [str(path) for folder in folders or () for path in sorted(Path(folder).glob("lib/lib_lightgbm.*"))]
    if not found:
        # A build of its own may keep the library elsewhere, and its package knows where.
        from lightgbm.libpath import _find_lib_path  # noqa: PLC0415

        found = _find_lib_path()
    library = ctypes.CDLL(found[0])
    library.LGBM_GetLastError.restype = ctypes.c_char_p
    return library
