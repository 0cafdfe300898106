"""`walltime run` and `walltime rerun`: all steps from logs to tables that are published, or to a version of its own."""

import resource
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from flows.cli.options import CONFIG, JSON, LOGS, PLAIN, SHOW_PREFECT, SITE, option
from flows.pages.activity import is_quiet, showing_stages
from flows.pages.blocks import Answer, Block, Column, Exact, Grid, between, columns, notes, number, text
from flows.services.files.os_errors import config_settings
from flows.services.quantities import instant
from pipeline.errors import InputError, WalltimeError

if TYPE_CHECKING:
    from flows.services.run_record import RunLog
    from pipeline.publish import Manifest

PATTERN_ROWS = 5
"""Number of patterns in the summary; the table has all."""

OUT = option("--out DIR", "The folder to publish to, instead of the config's.")


def run(
    config: Path = CONFIG,
    log: list[str] | None = LOGS,
    site: str | None = SITE,
    out: str | None = OUT,
    plain: bool = PLAIN,
    verbose: bool = SHOW_PREFECT,
    log_format: Literal["text", "json"] | None = option(
        "--log-format", "json: each event is one line of JSON on stderr; default: the config's."
    ),
    json: bool = JSON,
) -> Answer | None:
    """Read the logs, fit models, predict runtimes, and publish the tables as Parquet files.

    \b
    Examples:
      walltime run configs/sample.toml
      walltime run my-site.toml --log /var/log/my-log.swf.gz --site my-cluster
      walltime run my-site.toml --plain --json
    """
    from flows.services.site_facts import summarize_version
    from pipeline.publish.manifest import MANIFEST

    began = time.monotonic()
    arguments: dict[str, Any] = {"config": str(config), "logs": log or [], "site": site, "output_dir": out}
    with (
        _following(config, log_format, verbose=verbose) as chosen,
        nullcontext() if chosen.is_json else _showing_steps(),
    ):
        published = _made("run", arguments, is_plain=plain, verbose=verbose)
    if is_quiet() and not json:
        return None
    # Where no step was done, nothing is new.
    is_new = any(not step.is_reused for name, step in chosen.run.steps.items() if name != "publish")
    summary = summarize_version(published) | {
        "manifest": str(published.root / MANIFEST), "output_dir": str(published.root),
        "folder": str(published.place("predictions").parent), "created_s": published.created_s,
        "seconds": time.monotonic() - began,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "config": str(config), "nothing_new": not is_new,
    }  # fmt: skip
    if is_new:
        return Answer(summary, view_summary(summary))
    said = Exact(
        f"Nothing new since {instant(published.created_s)}: logs, settings and code are those of run "
        f"{published.run_id}. Its tables in {summary['folder']} stay."
    )
    return Answer(summary, [said, *notes(summary["notes"])])


def _made(command: Literal["run", "rerun"], arguments: dict[str, Any], *, is_plain: bool, verbose: bool) -> "Manifest":
    """The version that the command makes: under Prefect where the user has configured a server of it, else plainly."""
    from flows.services.logs import listed_paths, run_settings
    from flows.services.run.running import rerun_and_keep, run_and_publish
    from flows.services.run_record import RunLog, run_log

    config = Path(arguments["config"])
    settings = run_settings(config, arguments["site"], arguments["output_dir"])
    if not is_plain:
        from flows.prefect import prefect_session, server_address

        if server_address():
            # This fails before Prefect's API is asked, without asking sacct.
            listed_paths(settings, config, arguments["logs"])
            with prefect_session(verbose=verbose, instead=f"`walltime {command} --plain`"):
                from flows.prefect.nightly import nightly, rerun, run_flow
                from pipeline.publish import load_manifest

                folder = run_flow({"run": nightly, "rerun": rerun}[command], arguments, settings.site.name)
                return load_manifest(Path(settings.output_dir), folder)
        if settings.run.processes > 1 or settings.run.dask:
            say = "run.processes and run.dask take a Prefect server (PREFECT_API_URL): the steps run one after another."
            (run_log.get() or RunLog(sys.stderr)).warn(say)
    make: Callable[..., Manifest] = run_and_publish if command == "run" else rerun_and_keep
    return make(**arguments)


@contextmanager
def _following(config: Path, log_format: str | None, *, verbose: bool) -> Iterator["RunLog"]:
    """The log of the run inside. With JSON lines a failure is one too, and ends the command here."""
    from flows.services.run_record import RunLog, logging_to
    from pipeline.settings import RunSettings

    settings = RunSettings()
    # The run reports what is wrong with its config.
    with suppress(InputError):
        settings = config_settings(config)
    is_json = (log_format or settings.run.log_format) == "json"
    if is_json and verbose:
        found, expected = "also --log-format json", "one of them, because Prefect's log is plain text"
        raise InputError("--verbose", found, expected, "leave out --verbose")
    log = RunLog(sys.stderr, is_json, is_quiet(), settings.site.anonymise)
    with logging_to(log):
        try:
            yield log
        except (WalltimeError, OSError) as error:
            if not is_json:
                raise
            if not log.has_ended:
                log.ended(None, error)
            sys.exit(error.exit_code if isinstance(error, WalltimeError) else WalltimeError.exit_code)


def _showing_steps() -> AbstractContextManager[None]:
    """Show the steps of a run as they end."""
    from pipeline.run import STEPS

    return showing_stages(len(STEPS) + 1)


def rerun(
    config: Path = CONFIG,
    name: str = option("--name", "The name of the version, as in try-7.", ...),
    begin: str | None = option("--since TIME", "Use jobs submitted from this month, day or instant on."),
    end: str | None = option("--until TIME", "Use jobs that had ended by then; a month or day is included."),
    change: list[str] | None = option("--set KEY=VALUE", "A setting to change, as in group.template=user; repeatable."),
    log: list[str] | None = LOGS,
    site: str | None = SITE,
    out: str | None = OUT,
    plain: bool = PLAIN,
    verbose: bool = SHOW_PREFECT,
) -> Answer:
    """Run over the jobs of a time window with changed settings, into a separate version that is not published.

    `walltime versions compare` scores it beside another version, `walltime versions promote` publishes it. The template
    is chosen only from the jobs of the window.

    \b
    Examples:
      walltime rerun my-site.toml --since 2023-01 --until 2023-06 --set group.template=user --name try-7
    """

    from flows.services.site_facts import summarize_version

    began = time.monotonic()
    arguments: dict[str, Any] = {
        "config": str(config), "name": name, "changes": change or [], "begin": begin, "end": end, "logs": log or [],
        "site": site, "output_dir": out,
    }  # fmt: skip
    with _showing_steps():
        manifest = _made("rerun", arguments, is_plain=plain, verbose=verbose)
    summary: dict[str, Any] = summarize_version(manifest)
    facts = {"version": manifest.folder, "name": name, "seconds": time.monotonic() - began}
    holds = (
        f"Version {named_version(manifest)} holds {summary['jobs']:,} jobs, {summary['groups']:,} groups and "
        f"{summary['predictions']:,} predictions, {summary['predictions_ok']:,} of them reliable."
    )
    do = (
        f"It is not published. `walltime versions compare` scores it beside another version, and "
        f"`walltime versions promote {manifest.name}` publishes it."
    )
    return Answer(summary | facts, [holds, do])


def view_summary(summary: Mapping[str, Any]) -> Iterator[Block]:
    """The run in a few tables, a sample of its predictions, and commands to try next."""
    from flows.pages.scaling import over_axis
    from flows.services.published.published_folder import template_sentences
    from pipeline.schema import axis_of

    yield Grid(
        f"Run {summary['run_id']} of site {summary['site']}", columns("counts"), _counts(summary), has_header=False
    )
    if summary["templates"]:
        yield template_sentences(summary["templates"])
    if summary["set_aside"]:
        rows = [(reason, one["jobs"], one["processor_hours"]) for reason, one in summary["set_aside"].items()]
        yield Grid("Set aside, by the first reason that applies", columns("set_aside"), rows)
    fits = [{"law": law, **counts, "all": sum(counts.values())} for law, counts in summary["fits"].items()]
    statuses = sorted(
        {status for counts in summary["fits"].values() for status in counts}, key=lambda s: (s != "ok", s)
    )
    counted = (Column(status, lambda row, status=status: row.get(status, 0)) for status in statuses)  # type: ignore[misc]
    yield Grid("Groups by chosen law and fit status", (text("law"), *counted, Column("all")), fits)
    if patterns := summary["patterns"]:
        more = f", the surest {PATTERN_ROWS} of {len(patterns)}" if len(patterns) > PATTERN_ROWS else ""
        yield Grid(f"Patterns that no smooth law describes{more}", columns("patterns"), patterns[:PATTERN_ROWS])
    if sample := summary["sample"]:
        title = f"Sample: {sample['label']} (law {sample['law']}, {number(sample['n_points'])} sizes observed)"
        shown = columns(
            "sample",
            n_jobs=lambda row: row["n_jobs"] or None,
            of_80=lambda row: between(row["runtime_s_lo80"], row["runtime_s_hi80"]),
        )
        yield Grid(title, over_axis(axis_of(sample["axis"]), shown), sample["predictions"])
    yield from notes(summary["notes"])
    yield Exact(f"The tables are in {summary['folder']}; {summary['manifest']} always names the current ones.")
    yield Exact(f"Next: walltime show --from {shlex.quote(summary['output_dir'])}")


def named_version(manifest: "Manifest") -> str:
    """The folder of a version, and the version's name if it has one."""
    return f"{manifest.folder} ({manifest.name})" if manifest.name else manifest.folder


def _counts(summary: Mapping[str, Any]) -> Iterator[list[str]]:
    """The numbers of a run with what they mean, as counts.tsv names them."""
    counts, set_aside, kept = summary["reliability"], summary["set_aside_total"], summary["kept"]
    doubtful = {word: n for word, n in counts.items() if word not in ("ok", "wide")}
    others = ", ".join(f"{number(rows)} {reason}" for reason, rows in summary["no_jobs"].items())
    shares = [summary[f"predictions_{name}"] for name in ("in_80_later", "in_95_later")]
    coverage, means = "", "no ended job to try predictions on"
    if None not in shares:
        coverage = " / ".join(f"{share:.0%}" for share in shares)
        means = "share of later runs inside the 80% and 95% intervals, each as of the week before"
    facts = {
        **summary, **{name: number(summary[name]) for name in ("seconds", "peak_mib")},
        "logs": ", ".join(summary["logs"]), "others": others and f"; no jobs: {others}",
        "hours": number(kept["processor_hours"] + set_aside["processor_hours"]),
        "set_aside_jobs": set_aside["jobs"], "set_aside_hours": number(set_aside["processor_hours"]),
        "ok": counts["ok"], "ok_share": counts["ok"] / max(summary["predictions"], 1),
        "ok_jobs_share": summary["predictions_ok_jobs"] / max(kept["jobs"], 1), "kept": counts["ok"] + counts["wide"],
        "doubtful": sum(doubtful.values()), "words": ", ".join(f"{number(n)} {word}" for word, n in doubtful.items()),
        "coverage": coverage, "coverage_means": means,
    }  # fmt: skip
    for line in Path(__file__).with_name("counts.tsv").read_text("utf-8").splitlines()[1:]:
        yield [cell.format(**facts) for cell in line.split("\t")]
