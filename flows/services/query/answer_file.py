"""A batch's answers as a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from flows.services.files.os_errors import naming_path
from pipeline.storage import write_atomically


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """The rows as a table, .csv or .parquet, whole or not at all."""
    table = pa.Table.from_pylist([dict(row) for row in rows])
    write = pq.write_table if path.suffix == ".parquet" else pa.csv.write_csv
    with naming_path(path):
        write_atomically(path, lambda sink: write(table, sink))
