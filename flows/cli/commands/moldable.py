"""`walltime moldable`: replays of a log in which the scheduler chooses the processors of some jobs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

Given = Annotated[
    Path, typer.Argument(metavar="LOG|CONFIG.toml", readable=False, help="A log, or a config that names logs.")
]
Series = Annotated[
    Path | None,
    typer.Option(
        "--series",
        metavar="FILE.csv",
        help="Measured series (procs, runtime_s, application ...). Every group of similar jobs follows a drawn one.",
    ),
]
Laws = Annotated[
    Path | None,
    typer.Option(
        "--laws", metavar="TRUTH.json", help="Instead: the laws of a simulated log, as its truth file has them."
    ),
]
Shares = Annotated[str, typer.Option("--share", metavar="0,20,50,100", help="Shares of moldable jobs to replay, %.")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, max=1000, help="Replays of each share and chooser.")]
Reach = Annotated[
    int, typer.Option("--reach", min=0, max=10, help="Doublings up and down from the count that the user asked for.")
]
By = Annotated[
    Literal["median", "hi80", "hi95"],
    typer.Option("--quantile", help="What fitted curves are judged by: the median, or the upper end of an interval."),
]
MaxProcs = Annotated[
    int | None, typer.Option("--max-procs", min=1, help="Processors of the machine, where the log does not say.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write moldable.parquet (every seed) and moldable.md.")
]


def moldable(
    given: Given,
    series: Series = None,
    laws: Laws = None,
    share: Shares = "0,20,50,100",
    seeds: Seeds = 10,
    reach: Reach = 2,
    quantile: By = "hi80",
    max_procs: MaxProcs = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Replay a log whose jobs may start on several processor counts, which the scheduler chooses.

    The scheduler knows each job's runtimes on other counts by nothing (rigid), by a guess from Amdahl's law, by curves
    fitted to the log's earlier jobs, or truly. The true curves are assumed: name their source.
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render import console, say
    from flows.pages.terminal.render_moldable import moldable_page, print_moldable
    from flows.services.moldable.moldable_log import read_moldable_log
    from flows.services.moldable.moldable_study import StudySettings, assumptions, shares, study, summary, write_study
    from flows.services.moldable.true_curves import true_curves

    settings = StudySettings(shares(share), seeds, reach, quantile)
    curves = true_curves(series, laws)
    log = read_moldable_log(given, max_procs)
    table = study(log, curves, settings)
    rows, said = summary(table.to_pylist()), assumptions(log, curves, settings)
    written = write_study(out, table, moldable_page(log.name, rows, said)) if out else {}
    if json:
        print_json({"log": log.name, "curves": curves.name, "summary": rows, "assumptions": said, "tables": written})
        return
    print_moldable(log.name, rows, said)
    for path in written.values():
        console().print(f"Wrote {say(path, 1000)}", soft_wrap=True)
