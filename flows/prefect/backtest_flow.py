"""The backtest as a Prefect flow: one task per log, from the log's paths to the path of its table."""

from pathlib import Path

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from flows.pages.markdown import report_markdown
from flows.prefect.session import artifact_key
from flows.services.backtesting import Task, backtest_tasks, run_backtest, save_result
from pipeline.errors import printable


@flow(name="backtest", retries=0, persist_result=False)
def backtest_logs(
    config: str,
    folder: str,
    logs: list[str] | None = None,
    methods: list[str] | None = None,
    check_leaks: bool = False,
    staleness: list[str] | None = None,
    compare_cleaning: bool = False,
) -> list[str]:
    """Backtest methods on each log's own past; returns the paths of the tables written to `folder`, one per log.

    `config` is the path of a TOML file. Each of `logs` is a log of its own; without `logs` the config's are one log.
    """
    tasks = backtest_tasks(
        Path(config), logs or (), methods or (), check_leaks=check_leaks, staleness=staleness or (),
        compare_cleaning=compare_cleaning,
    )  # fmt: skip
    return [backtest_one(one, str(Path(folder) / f"{place}.parquet")) for place, one in enumerate(tasks)]


@task(name="backtest", task_run_name="backtest", retries=0, persist_result=False, cache_policy=NO_CACHE)
def backtest_one(one: Task, path: str) -> str:
    """Backtest one log; returns the path of its table."""
    result = run_backtest(one)
    get_run_logger().info("%s: %d jobs scored", printable(one.log), result.report.kept.rows)
    key = artifact_key(one.settings.site.name, "backtest")
    create_markdown_artifact(report_markdown(result.report), key=key, description=f"Backtest of {printable(one.log)}")
    return str(save_result(result, Path(path)))
