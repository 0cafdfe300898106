"""Reads toy logs: after the line `#toy`, one job a line: `id,submit,start,end,processors` (UTC epoch seconds)."""

from collections.abc import Iterator

from pipeline.ingest.reader import Chunk, Reader, constant, jobs_table, unreadable_table
from pipeline.ingest.sources import Block, Source, line_blocks
from pipeline.schema import as_array
from pipeline.settings import IngestSettings, SiteSettings
from pipeline.tables import JOBS

COLUMNS = ("job_id", "submit_s", "start_s", "end_s", "procs", "runtime_s", "source_line")


def read(source: Source, site: SiteSettings, _settings: IngestSettings) -> Iterator[Chunk]:
    """A toy log's chunks."""
    for block in line_blocks(source):
        jobs, bad, n_comments = parsed(block, source)
        table = jobs_table(
            len(jobs),
            site=constant(site.name, len(jobs)),
            source_file=constant(source.label, len(jobs)),
            **{
                name: as_array([job[i] for job in jobs], JOBS.schema().field(name).type)
                for i, name in enumerate(COLUMNS)
            },
        )
        yield Chunk(table, unreadable_table(bad), {"comment": n_comments}, block.n_lines, len(block.data))


def parsed(block: Block, source: Source) -> tuple[list[tuple], list[dict], int]:
    """A block's jobs in the order of COLUMNS, its unreadable lines, and the number of its comments."""
    jobs, bad, n_comments, offset = [], [], 0, block.offset
    for line, text in enumerate(block.data.splitlines(keepends=True), block.line):
        cells = text.strip().split(b",")
        if text.startswith(b"#"):
            n_comments += 1
        elif text.endswith(b"\n") and len(cells) == 5 and all(cell.isdigit() for cell in cells):
            submit, start, end, procs = map(int, cells[1:])
            jobs.append((cells[0].decode(), submit, start, end, procs, end - start, line))
        else:
            # The last line may be cut short where the log is still being written: a part of a number is not a number.
            reason = "not_five_numbers" if text.endswith(b"\n") else "no_line_end"
            raw = text.decode("utf-8", "backslashreplace")
            place = {"source_file": source.label, "source_line": line, "byte_offset": offset}
            bad.append({**place, "reason": reason, "raw": raw})
        offset += len(text)
    return jobs, bad, n_comments


TOY = Reader(
    name="toy",
    expects="lines of id,submit,start,end,processors after a line #toy",
    reasons=("not_five_numbers", "no_line_end"),
    same_record=("submit_s",),
    looks_right=lambda head: head.startswith(b"#toy\n"),
    read=read,
)
