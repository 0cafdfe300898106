"""Reads toy logs: after the line `#toy`, one job a line: `id,submit,start,end,processors` (UTC epoch seconds)."""

from pipeline.ingest.raw_table import Column, reader_of_lines

COLUMNS = (
    Column("job_id", "id"),
    Column("submit_s", "submit"),
    Column("start_s", "start"),
    Column("end_s", "end"),
    Column("procs", "processors"),
)


def split(line: bytes) -> dict[str, str] | str:
    """A job's texts by column, or what else the line is; ValueError where it cannot be read."""
    if line.startswith(b"#"):
        return "comment"
    cells = line.decode().strip().split(",")
    if not all(cell.isdigit() for cell in cells):
        raise ValueError
    return dict(zip((column.name for column in COLUMNS), cells, strict=True))


TOY = reader_of_lines("toy", "lines of id,submit,start,end,processors after a line #toy", COLUMNS, split, "^#toy$")
