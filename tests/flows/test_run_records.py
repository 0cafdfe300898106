"""Under Prefect: failures are a sentence, sacct is asked again, and a Ctrl-C is known to Prefect."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
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
    """A terminal sends it to the temporary server too, which has to live until it has the state of the run."""
    # Tests that were started in the background ignore Ctrl-C, and so would the run.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    own = ("PREFECT_API_URL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-m", "flows.cli", "run", "configs/sample.toml", "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command, env=environment | {"PREFECT_HOME": str(tmp_path / "home")}, cwd=ROOT, start_new_session=True,
        stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stderr is not None and run.stderr.readline().startswith("ingest")
        began = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)
        left = run.stderr.read()
    assert run.returncode == 130 and "Traceback" not in left and time.monotonic() - began < 30
    with closing(sqlite3.connect(tmp_path / "home" / "prefect.db")) as database:
        assert database.execute("SELECT state_name FROM flow_run").fetchall() == [("Crashed",)]


def test_a_killed_run_takes_the_temporary_server_with_it(tmp_path: Path) -> None:
    own = ("PREFECT_API_URL", "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    command = [sys.executable, "-m", "flows.cli", "run", "configs/sample.toml", "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        command, env=environment | {"PREFECT_HOME": str(tmp_path / "home")}, cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None and run.stderr.readline().startswith("ingest")
        children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
        servers = [child for child in children if b"uvicorn" in Path(f"/proc/{child}/cmdline").read_bytes()]
        assert len(servers) == 1
        run.kill()
    for _ in range(100):
        if not Path(f"/proc/{servers[0]}").exists():
            break
        time.sleep(0.2)
    assert not Path(f"/proc/{servers[0]}").exists()
