"""`walltime limits`: limits that keep a promise, and unused hours, per user or account."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.options import Json

Given = Annotated[
    Path,
    typer.Argument(metavar="CONFIG|LOG", readable=False, help="A config, a log, or a table of jobs (.parquet)."),
]
By = Annotated[Literal["user", "account"], typer.Option("--by", help="Whose jobs are listed together.")]
Promise = Annotated[
    str, typer.Option("--promise", metavar="SHARE", help="Share of all jobs that shall end within their limit.")
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Also write tables (.csv) and one mail text per user; nothing is sent."),
]
Score = Annotated[
    bool, typer.Option("--score", help="Only compare the limits with other rules on the log's later half.")
]


def limits(
    given: Given,
    by: By = "user",
    promise: Promise = "97%",
    out: Out = None,
    score: Score = False,
    json: Json = False,
) -> None:
    """Recommend runtime limits that keep a promise, with unused hours, per user or account.

    Each job gets a limit as of its submit. The later half of the log measures what the limits would have done: the
    share of jobs within them, the over-requested processor-hours removed, and the used ones lost.

    \b
    Examples:
      walltime limits my-site.toml --by account --out letters
      walltime limits jobs.parquet --score
    """
    from flows.pages.terminal.json_out import print_json
    from flows.pages.terminal.render_scheduler import print_limit_scores, print_limits
    from flows.services.limits import advise, check_folder, limit_log, promise_of, write_advice
    from flows.services.limits import score as scored

    share = promise_of(promise)
    check_folder(out, score=score)
    log = limit_log(given)
    if score:
        found = scored(log, share)
        print_json(found) if json else print_limit_scores(found)
        return
    found = advise(log, by, share)
    written = {} if out is None else write_advice(out, found)
    print_json(found | {"written": written}) if json else print_limits(found, written)
