"""ESTIMATES as CSV for spreadsheets and databases; a name from a log cannot become a formula."""

import csv
import io

from pipeline.core.export_settings import ExportSettings
from pipeline.core.text import spreadsheet_text
from pipeline.export.published_tables import Files, PublishedTables

CSV_FILE = "walltime.csv"


def csv_files(tables: PublishedTables, settings: ExportSettings) -> Files:  # noqa: ARG001
    """walltime.csv: ESTIMATES with a header, in UTF-8, lines ended by CR LF as RFC 4180 says.

    A text that begins as a formula does gets an apostrophe in front, which spreadsheets do not show. A database that
    needs the text itself removes one leading apostrophe. Null is an empty cell; an empty text cannot be told from it.
    """
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(tables.estimates.column_names)
    columns = [column.to_pylist() for column in tables.estimates.columns]
    writer.writerows([_cell(value) for value in row] for row in zip(*columns, strict=True))
    return {CSV_FILE: out.getvalue().encode("utf-8", "backslashreplace")}


def _cell(value: str | float | None) -> str | float | None:
    return spreadsheet_text(value) if isinstance(value, str) else value
