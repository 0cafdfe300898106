"""numpy and Arrow by buffers: what pa.array and to_numpy would have given."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from pipeline.arrays import arrow, floats_of, integers, nulls, texts


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float64, np.bool_])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100])
def test_arrays_are_those_of_pyarrow(kind: type, size: int) -> None:
    noise = np.random.default_rng(size)
    values, missing = noise.integers(0, 2, size).astype(kind), noise.random(size) < 0.5
    for mask in (None, missing, np.zeros(size, np.bool_), np.ones(size, np.bool_)):
        ours = arrow(values[::-1], mask)
        ours.validate(full=True)
        assert ours.equals(pa.array(values[::-1], mask=mask))


def test_texts_are_those_of_pyarrow() -> None:
    words = ["", "a", "Zürich", "日本", "x" * 1000]
    assert texts(words).equals(pa.array(words))
    assert texts([]).equals(pa.array([], pa.string()))


def test_values_and_nulls_come_back_from_slices_and_chunks() -> None:
    column = pa.chunked_array([[1, None, 3, None, 5, 6, 7, 8, 9, None], [None, 2]])
    for piece in (column, column.slice(1, 7), column.slice(3, 0), column.slice(2, 9), column.chunk(0).slice(3)):
        values, missing = integers(piece)
        assert [None if m else v for v, m in zip(values.tolist(), missing.tolist(), strict=True)] == piece.to_pylist()
        assert nulls(piece).tolist() == missing.tolist()
        exact = floats_of(piece.cast(pa.float64()))
        assert [None if np.isnan(v) else v for v in exact.tolist()] == piece.to_pylist()


@pytest.mark.parametrize(
    ("log", "spared"),
    [
        (
            "; UnixStartTime: 5\n1 2 3 4 5 6.5 7 8 9 10 1 12 13 14 15 16 -1 -1\n",
            {"pandas", "numba", "scipy", "duckdb", "prefect"},
        ),
        (
            "01/02/2026 03:04:05;Q;1.server;user=ann jobname=a.sh queue=q ctime=1767323045\n",
            {"pandas", "duckdb", "prefect"},
        ),
        (
            "JobID|JobName|User|Submit|Start|End|State|AllocCPUS|Elapsed|Timelimit\n"
            "6|run|ada|2026-03-01T10:00:00|2026-03-01T10:00:05|2026-03-01T11:00:05|COMPLETED|4|01:00:00|02:00:00\n",
            {"pandas", "numba", "scipy", "duckdb", "prefect"},
        ),
    ],
)
def test_ingest_wakes_neither_pandas_nor_numba_for_a_regular_log(tmp_path, log: str, spared: set[str]) -> None:
    (tmp_path / "log").write_text(log)
    code = (
        "import sys; from pathlib import Path\n"
        "from pipeline.settings import IngestSettings, SiteSettings\n"
        "from pipeline.storage import write_table\n"
        "from pipeline.tables import JOBS\n"
        "from pipeline.ingest import ingest\n"
        "jobs, _, _ = ingest([Path(sys.argv[1])], SiteSettings(), IngestSettings())\n"
        "write_table(Path(sys.argv[1] + '.parquet'), jobs, JOBS)\n"
        f"print(sorted({spared!r} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "log")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
