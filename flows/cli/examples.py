"""Examples of each command, which `walltime COMMAND --help` ends with; a test parses all of them."""

from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "run": (
        "walltime run configs/sample.toml",
        "walltime run my-site.toml --log /var/log/my-log.swf.gz --site my-cluster --out my-tables",
        "walltime run my-site.toml --plain --json",
    ),
    "ingest": (
        "walltime ingest dump.txt --timezone Europe/Oslo --out jobs.parquet",
        "walltime ingest /var/spool/pbs/server_priv/accounting --out jobs.parquet",
        "walltime ingest --live --since 2026-01-01 --out jobs.parquet --update",
    ),
    "inspect": ("walltime inspect dump.txt", "walltime inspect data_samples/traps.swf --all --rows 20"),
    "quarantine": (
        "walltime quarantine jobs.parquet",
        "walltime quarantine jobs.parquet --reason no_line_end --limit 5",
    ),
    "clean": ("walltime clean jobs.parquet --out flagged.parquet --report page.html --config my-site.toml",),
    "apply": ("walltime apply my-site.toml --dry-run", "walltime apply my-site.toml --yes --for pbs"),
    "fit-series": (
        "walltime fit-series runs.csv --predict 64,128",
        "walltime fit-series runs.csv --report runs.html --procs-per-node 24 --rate 0.02",
    ),
    "evaluate-scaling": (
        "walltime evaluate-scaling runs.csv",
        "walltime evaluate-scaling a.csv b.csv --out errors.csv",
    ),
    "report": ("walltime report my-tables --out pages", "walltime report --out pages"),
    "query": (
        "walltime query --from my-tables --user u17 --application solver_n16.sh --procs 64 --requested 4h",
        "walltime query --from my-tables --batch jobs.csv --out answers.parquet",
    ),
    "advice": ("walltime advice --from my-tables", "walltime advice --application solver --user u17 --rate 0.02"),
    "advise": ("walltime advise my-site.toml --by account --out letters", "walltime advise jobs.parquet --score"),
    "backtest": (
        "walltime backtest my-site.toml --by month --report page.html --out figures.parquet",
        "walltime backtest my-site.toml --methods walltime,last_two --staleness live,1d --plain",
    ),
    "replay": (
        "walltime replay my-site.toml --out replayed",
        "walltime replay log.swf.gz --policy easy,easy-sjbf --estimates request,walltime --shakes 0",
    ),
    "moldable": ("walltime moldable log.swf.gz --series runs.csv --seeds 3 --out moldable",),
    "show": (
        "walltime show",
        "walltime show predictions",
        'walltime show my-tables jobs --where "procs > 64" --limit 5',
        "walltime show my-tables jobs --json",
    ),
    "search-templates": ("walltime search-templates my-site.toml --out templates.toml --share 0.33 --minutes 10",),
    "columns": ("walltime columns", "walltime columns predictions"),
    "phases": ("walltime phases trace.csv --out found --application solver --report phases.html",),
    "phase-plan": ("walltime phase-plan found --budget 5%",),
    "phase-times": ("walltime phase-times found times.csv --platform north",),
    "predict-phases": ("walltime predict-phases found --platform north --publish my-tables",),
    "learn": ('walltime learn runs.csv --target time_s --derive "work=n*steps" --out model --report model.html',),
    "ask": ("walltime ask model --at n=1000,steps=64", "walltime ask model --points points.csv --json"),
    "suggest": ("walltime suggest model --budget 100000 --unit proc-seconds",),
    "watch": ("walltime watch my-site.toml --every 5m", "walltime watch my-site.toml --once --yes"),
    "export": ("walltime export slurm-plugin --for slurm --from my-tables", "walltime export tables --for csv"),
    "versions": ("walltime versions", "walltime versions my-tables --json"),
    "promote": ("walltime promote try-7", "walltime promote my-tables 2026-11-22T0310Z-0a1b2c3d"),
    "rollback": ("walltime rollback", "walltime rollback my-tables"),
    "hold": ("walltime hold try-7", "walltime hold my-tables 2026-11-22T0310Z-0a1b2c3d"),
    "release": ("walltime release try-7", "walltime release my-tables 2026-11-22T0310Z-0a1b2c3d"),
    "rerun": (
        "walltime rerun my-site.toml --from 2023-01 --to 2023-06 --set clean.flurry.remove_weeks=2 --name try-7",
    ),
    "compare": ("walltime compare try-7 try-8", "walltime compare my-tables try-7 try-8 --json"),
    "check": ("walltime check", "walltime check my-tables --json"),
    "doctor": ("walltime doctor", "walltime doctor my-site.toml --max-age 36h"),
    "init": ("walltime init --out my-site.toml", "walltime init --log /var/log/my-log.swf.gz --systemd units"),
    "serve": ('walltime serve my-site.toml --cron "15 2 * * *" --timezone Europe/Oslo',),
    "metrics": ("walltime metrics", "walltime metrics my-tables --out /var/lib/node_exporter/walltime.prom"),
    "page": ("walltime page --out site.html", "walltime page my-tables --pages pages --out site.html"),
    "exit-codes": ("walltime exit-codes", "walltime exit-codes --json"),
})  # fmt: skip
"""Command lines by command, as a user types them."""


def epilog(command: str) -> str | None:
    """The last lines of a command's help; None for a command without examples."""
    lines = EXAMPLES.get(command, ())
    # \b keeps typer from joining the lines.
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)]) if lines else None
