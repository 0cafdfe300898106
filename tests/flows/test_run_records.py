"""Under Prefect: failures are a sentence, sacct is asked again, and a Ctrl-C is known to Prefect."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flows.fake_programs import Sacct, job

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("prefect")


def test_a_bad_config_is_a_failed_run_with_one_sentence_and_no_traceback(tmp_path: Path) -> None:
    from prefect.client.orchestration import get_client

    from flows.prefect.nightly import nightly

    config = tmp_path / "my-site.toml"
    config.write_text("[site]\nnam = 'oxbow'\n")
    state = nightly(str(config), return_state=True)
    assert state.is_failed() and state.message is not None
    assert state.message.startswith(f"{config}: found unknown key site.nam, expected one of ")
    assert state.message.count("\n") == 0
    run_id = state.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        assert client.read_flow_run(run_id).name.startswith("my-site 20")


def sacct_config(tmp_path: Path, sacct: Sacct) -> Path:
    path = tmp_path / "site.toml"
    source = "kind = 'sacct'\nsince = '2026-01-01'"
    more = f"[ingest]\nsacct_command = '{sacct.path}'\n[site]\nname = 'oxbow'\n"
    path.write_text(f"output_dir = '{tmp_path / 'out'}'\n[source]\n{source}\n{more}")
    return path


def test_a_failing_sacct_is_asked_again_and_a_bad_setting_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect.nightly import nightly
    from flows.prefect.nightly import sacct as task

    monkeypatch.setattr(task, "retry_delay_seconds", [0.01] * 3)

    sacct = Sacct(tmp_path / "bin", [job(n) for n in range(8)])
    config = sacct_config(tmp_path, sacct)
    sacct.fails(True)
    state = nightly(str(config), return_state=True)
    assert state.is_failed() and "slurmdbd is not there" in (state.message or "")
    assert len(sacct.windows) == 4
    config.write_text(config.read_text().replace("'2026-01-01'", "'soon'"))
    assert nightly(str(config), return_state=True).is_failed()
    assert len(sacct.windows) == 4
    config.write_text(config.read_text().replace("'soon'", "'2026-01-01'"))
    sacct.fails(False)
    assert nightly(str(config), return_state=True).is_completed()
    assert len(sacct.windows) == 5


def test_a_ctrl_c_of_a_terminal_ends_the_run_at_once_and_prefect_knows(tmp_path: Path) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter
    from prefect.settings import PREFECT_API_URL

    # Tests that were started in the background ignore Ctrl-C, and so would the run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config = tmp_path / "eddy.toml"
    config.write_text(f"logs = ['{ROOT / 'data_samples/riverbend.swf.gz'}']\n[site]\nname = 'eddy-of-ctrl-c'\n")
    command = [sys.executable, "-m", "flows.cli", "run", str(config), "--out", str(tmp_path / "out")]
    environment = os.environ | {"PREFECT_API_URL": str(PREFECT_API_URL.value()), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None and run.stderr.readline().startswith("ingest")
        began = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)
        left = run.stderr.read()
    assert run.returncode == 130 and "Traceback" not in left and time.monotonic() - began < 30
    tagged = FlowRunFilter.model_validate({"tags": {"all_": ["site:eddy-of-ctrl-c"]}})
    with get_client(sync_client=True) as client:
        assert [one.state_name for one in client.read_flow_runs(flow_run_filter=tagged)] == ["Crashed"]
