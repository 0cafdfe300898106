"""Under Prefect: a killed run is marked Crashed by the next one, failures are a sentence, sacct is asked again."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from tests.flows.fake_programs import Sacct, job

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("prefect")


@pytest.fixture
def running_id() -> UUID:
    """A flow run that Prefect takes to be in progress."""
    from prefect import flow
    from prefect.client.orchestration import get_client
    from prefect.states import Running

    with get_client(sync_client=True) as client:
        return client.create_flow_run(flow(name="nightly")(lambda: None), state=Running()).id


def state_of(run_id: UUID) -> tuple[str, str]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        state = client.read_flow_run(run_id).state
        assert state is not None
        return state.name, state.message or ""


def test_the_next_run_marks_a_killed_one(config: Path, tmp_path: Path, running_id: UUID) -> None:
    from flows.prefect.nightly import nightly

    record = tmp_path / "out" / "work" / f"flow_run-{running_id}"
    record.parent.mkdir(parents=True)
    record.touch()
    nightly(str(config))
    name, message = state_of(running_id)
    assert name == "Crashed" and "found this by its record" in message
    assert list((tmp_path / "out" / "work").glob("*flow_run*")) == []


def test_a_run_that_this_api_does_not_know_keeps_its_record_for_a_month(tmp_path: Path) -> None:
    from prefect import flow

    from flows.prefect.nightly import mark_killed_runs

    unknown, strange = tmp_path / f"flow_run-{uuid4()}", tmp_path / "flow_run-x"
    for path in (unknown, strange):
        path.touch()
    marking = flow(name="marking")(lambda: mark_killed_runs(tmp_path))
    assert marking() == [] and unknown.exists() and strange.exists()
    os.utime(unknown, (1_000_000, 1_000_000))
    assert marking() == [] and not unknown.exists()


def test_the_next_run_ends_the_server_of_a_killed_one_and_no_other_process(tmp_path: Path) -> None:
    from prefect import flow

    from flows.prefect.nightly import mark_killed_runs

    marking = flow(name="marking")(lambda: mark_killed_runs(tmp_path))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as server:
        record = tmp_path / f"flow_run-{uuid4()}"
        for command, is_ended in (("another command", False), (f"{sys.executable}\0-c\0", False), (None, True)):
            found = Path(f"/proc/{server.pid}/cmdline").read_text() if command is None else command
            record.write_text(json.dumps([server.pid, found]))
            marking()
            if is_ended:
                assert server.wait(60) == -signal.SIGTERM
            else:
                assert server.poll() is None


def test_a_record_is_there_while_the_run_goes_on(tmp_path: Path) -> None:
    from prefect import flow

    from flows.prefect.nightly import recorded_flow_run

    @flow(name="recording")
    def recording() -> int:
        with recorded_flow_run(tmp_path):
            (path,) = tmp_path.iterdir()
            assert path.name.startswith("flow_run-")
        return len(list(tmp_path.iterdir()))

    assert recording() == 0


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

    monkeypatch.setattr("flows.prefect.nightly.SACCT_PAUSES_S", (0.01,) * 3)

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
