"""`walltime show`: the published tables, their rows and the meaning of their columns."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.options import AsOf, Json, check_mode, complete_table

ROWS_SHOWN = 20

Table = Annotated[
    str | None,
    typer.Argument(
        metavar="[TABLE]", help="The table to show; default: the list of tables.", autocompletion=complete_table
    ),
]
Given = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="DIR",
        readable=False,
        help="The folder to which a run has published, or its config (.toml); default: out, or the only one in it. "
        "Or a table that walltime ingest wrote (.parquet).",
    ),
]
Where = Annotated[
    str | None, typer.Option("--where", metavar="SQL", help='A condition on the columns, as in "procs > 64".')
]
Select = Annotated[str | None, typer.Option("--select", metavar="A,B", help="Only these columns; default: all.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, help=f"Number of rows; default: {ROWS_SHOWN}, with --csv and --xlsx all."),
]
Epoch = Annotated[bool, typer.Option("--epoch", help="Print times as seconds since 1970 UTC, as the tables hold them.")]
Columns = Annotated[
    bool, typer.Option("--columns", help="Instead: the columns with type, unit and meaning; of all tables without one.")
]
Csv = Annotated[bool, typer.Option("--csv", help="Print the rows as CSV on stdout.")]
Xlsx = Annotated[Path | None, typer.Option("--xlsx", metavar="FILE.xlsx", help="Write the rows as a workbook.")]


def show(
    ctx: typer.Context,
    table: Table = None,
    given: Given = None,
    where: Where = None,
    select: Select = None,
    limit: Limit = None,
    as_of: AsOf = None,
    epoch: Epoch = False,
    columns: Columns = False,
    csv: Csv = False,
    xlsx: Xlsx = None,
    json: Json = False,
) -> None:
    """Show what a run has published: its manifest, or the rows of a table.

    Times are printed as UTC, as in 2026-01-31T08:00:00Z; with --epoch, --csv, --xlsx and --json they are seconds since
    1970. Table unreadable has the records that could not be read, and is headed by their number for each reason.

    \b
    Examples:
      walltime show
      walltime show predictions --columns
      walltime show jobs --from my-tables --where "procs > 64" --select job_id,runtime_s --limit 5
      walltime show unreadable --from jobs.parquet --where "reason = 'no_line_end'"
      walltime show groups --csv
    """
    from pipeline.errors import InputError

    check_mode(ctx, "--columns", is_on=columns, own=(), shared=("--from",))
    rowwise = {"--where": where, "--select": select, "--csv": csv or None, "--xlsx": xlsx}
    asked = [option for option, value in rowwise.items() if value is not None]
    if columns:
        _describe(table, as_json=json)
    elif table is None and given is not None and given.suffix == ".parquet":
        raise InputError("show", "no table beside --from FILE.parquet", "jobs or unreadable")
    elif table is None and asked:
        raise InputError(asked[0], "no table beside it", f"a table to look in, as in jobs {asked[0]} ...")
    elif sum((json, csv, xlsx is not None)) > 1:
        raise InputError("the command line", "several of --json, --csv and --xlsx", "one of them")
    else:
        _show(table, given, where, select, limit, as_of, is_epoch=epoch, as_csv=csv, xlsx=xlsx, as_json=json)


def _describe(table: str | None, *, as_json: bool) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_published import print_columns
    from flows.services.published.browse import described_tables

    described = described_tables(table)
    print_json(described) if as_json else print_columns(described)


def _show(
    table: str | None,
    given: Path | None,
    where: str | None,
    select: str | None,
    limit: int | None,
    as_of: str | None,
    *,
    is_epoch: bool,
    as_csv: bool,
    xlsx: Path | None,
    as_json: bool,
) -> None:
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import print_written
    from flows.pages.terminal.render_published import print_all_readable, print_csv, print_manifest, print_rows
    from flows.services.published.browse import file_or_version, manifest_facts, selected_rows, table_rows, write_xlsx
    from flows.services.quantities import as_of_seconds

    with file_or_version(given, as_of_seconds(as_of)) as source:
        if table is None:
            facts = manifest_facts(source.manifest)
            print_json(facts) if as_json else print_manifest(facts)
            return
        shown = source.table(table)
        if shown is None:
            print_json({"table": table, "rows": 0, "shown": []}) if as_json else print_all_readable()
            return
        if as_csv or xlsx is not None:
            with selected_rows(shown, where, select, limit) as (names, rows):
                print_csv(names, rows) if xlsx is None else print_written({shown.name: write_xlsx(xlsx, names, rows)})
            return
        found = table_rows(shown, where, select, limit or ROWS_SHOWN)
    print_json(found) if as_json else print_rows(found, frozenset() if is_epoch else shown.instants)
