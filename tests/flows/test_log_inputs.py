"""Models over inputs of a log: what a query answers by them, and the backtest's method."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.services.files.os_errors import config_settings
from pipeline.estimate.history import history
from pipeline.estimate.stage import learn_state
from pipeline.ingest import ingest
from pipeline.ingest.derive import inputs_of
from pipeline.inputs.log_models import publish_models
from pipeline.publish import Retention
from pipeline.run import submitted_runs
from pipeline.settings import RunSettings, parse_settings
from pipeline.storage import write_table
from pipeline.tables import INPUT_MODELS, STATE
from tests.flows.support import SAMPLES, Outcome
from tests.publishing import facts_of, publish
from tools.simulation.named_inputs import law_s

Walltime = Callable[..., Outcome]
CONFIG = """logs = ['first.sacct']
[site]
name = 'names'
[[inputs.rules]]
find = '[a-z]+_n(?P<n>[0-9]{1,9})_step(?P<steps>[0-9]{1,9})'
[[inputs.rules]]
text = 'comment'
find = 'n=(?P<n>[0-9]{1,9}) steps=(?P<steps>[0-9]{1,9})'
[[inputs.rules]]
text = 'submit_line'
find = '.* -n (?P<n>[0-9]{1,9}) -s (?P<steps>[0-9]{1,9})'
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A config beside the first 450 jobs of the sample."""
    folder = tmp_path_factory.mktemp("names")
    lines = gzip.decompress((SAMPLES / "inputs.sacct.gz").read_bytes()).decode().splitlines(keepends=True)
    (folder / "first.sacct").write_text("".join(lines[:451]))
    (folder / "site.toml").write_text(CONFIG)
    return folder / "site.toml"


@pytest.fixture(scope="module")
def published(config: Path) -> Path:
    """STATE and INPUT_MODELS of the log, published."""
    settings, staged = config_settings(config), config.parent / "staged"
    jobs, _, _ = ingest([config.parent / "first.sacct"], settings.site, settings.ingest)
    state, _ = learn_state(jobs, settings.site)
    runs = submitted_runs(history(jobs, settings.site.timezone))
    models, _ = publish_models(runs, settings.inputs, "names", "run")
    tables = {
        "state": write_table(staged / "state.parquet", state, STATE),
        "input_models": write_table(staged / "input_models.parquet", models, INPUT_MODELS),
    }
    facts = facts_of("run", "names", settings.model_dump(mode="json"), [], "code")
    publish(tables, [], facts, output_dir=config.parent / "out", created_s=0, retention=Retention(newest=2))
    return config.parent / "out"


def test_a_name_with_inputs_is_answered_by_their_model_and_another_by_the_estimator(
    walltime: Walltime, published: Path
) -> None:
    given = ("query", "--from", published, "--user", "ada", "--procs", 4, "--json")
    found = json.loads(walltime(*given, "--job-name", "heat_n800_step300").out)
    assert found["answered_by"] == "inputs"
    assert found["runtime_s"] == pytest.approx(law_s("heat", 800, 300, 4), rel=0.3)
    quantiles = [found[f"runtime_s_q{q}"] for q in (10, 50, 80, 90, 95, 99)]
    assert quantiles == sorted(quantiles)
    for name in ("shell", "heat_n800", "heat_n99999999_step1"):
        assert json.loads(walltime(*given, "--job-name", name).out)["answered_by"] == "walltime"
    said = walltime(*given[:-1], "--job-name", "heat_n800_step300").out
    assert "from a model over the inputs that are named in the job's texts" in said


def test_a_model_answers_in_a_process_that_has_loaded_nothing_else(published: Path) -> None:
    given = ("--from", str(published), "--user", "ada", "--procs", "4", "--job-name", "heat_n800_step300", "--json")
    said = subprocess.check_output([sys.executable, "-m", "flows.cli", "query", *given], text=True)
    assert json.loads(said)["answered_by"] == "inputs"


@pytest.mark.parametrize(
    ("option", "text"), [("--comment", "n=800 steps=300"), ("--submit-line", "sbatch run.sh -n 800 -s 300")]
)
def test_rules_read_a_question_s_comment_and_submit_line(
    walltime: Walltime, published: Path, option: str, text: str
) -> None:
    given = ("query", "--from", published, "--user", "ada", "--procs", 4, "--json", "--job-name", "heat")
    found = json.loads(walltime(*given, option, text).out)
    assert found["answered_by"] == "inputs"
    named = json.loads(walltime(*given[:-1], "heat_n800_step300").out)
    assert found["runtime_s"] == named["runtime_s"]
    assert json.loads(walltime(*given, option, "nothing").out)["answered_by"] == "walltime"


def test_a_question_to_an_anonymising_site_has_the_inputs_that_ingest_kept() -> None:
    rules = parse_settings({"inputs": {"rules": [{"find": "(?P<who>[a-z]+)_(?P<n>[0-9]+)"}]}}, "x").inputs.rules
    assert inputs_of({"job_name": "bob_7"}, rules) == '{"n":"7","who":"bob"}'
    assert inputs_of({"job_name": "bob_7"}, rules, only_numbers=True) == '{"n":"7"}'
    assert inputs_of({"comment": "bob_7"}, rules) is None


def test_a_batch_says_which_method_answered_each_job(walltime: Walltime, published: Path, tmp_path: Path) -> None:
    batch = tmp_path / "jobs.csv"
    rows_of_jobs = ("heat_n400_step100,,ada,2", "heat,n=400 steps=100,ada,2", "shell,,dora,1")
    batch.write_text("\n".join(("job_name,comment,user,procs", *rows_of_jobs)) + "\n")
    rows = [
        json.loads(line) for line in walltime("query", "--from", published, "--batch", batch, "--json").out.splitlines()
    ]
    answered = [row["answered_by"] for row in rows if "answered_by" in row]
    assert answered == ["inputs", "inputs", "walltime"]


def test_the_backtest_has_the_method_and_it_is_better_than_the_last_two(walltime: Walltime, config: Path) -> None:
    done = walltime("backtest", config, "--methods", "inputs,last_two", "--json")
    rows = json.loads(done.out)
    text = json.dumps(rows)
    assert '"inputs"' in text
    figures = {row["estimator"]: row for row in _rows(rows) if row.get("part") == "all"}
    assert figures["inputs"]["mae_s"] < figures["last_two"]["mae_s"]


def _rows(found: object) -> list[dict[str, object]]:
    """Every row of a document that names an estimator."""
    if isinstance(found, dict):
        return [found] if "estimator" in found else [row for one in found.values() for row in _rows(one)]
    return [row for one in found for row in _rows(one)] if isinstance(found, list) else []


def test_a_config_keeps_its_rules_when_it_is_read_again(config: Path) -> None:
    settings = config_settings(config)
    assert settings.ingest.input_rules == settings.inputs.rules
    assert RunSettings.model_validate(settings.model_dump(mode="json")) == settings
