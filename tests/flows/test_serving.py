"""What `walltime serve` checks before it serves, and that Prefect's scheduler works with the installed libraries."""

from pathlib import Path

import pytest

from pipeline.core.errors import InputError, WalltimeError
from pipeline.core.settings import RunSettings

pytestmark = pytest.mark.usefixtures("prefect")

SETTINGS = RunSettings.model_validate({"site": {"name": "Oxbow", "timezone": "Europe/Oslo"}})


@pytest.mark.parametrize(
    ("cron", "zone", "sentence"),
    [("1 2 3", None, "no cron schedule"), ("", None, "no cron schedule"), ("15 2 * * *", "Oslo", "no time zone")],
)
def test_a_bad_schedule_is_one_sentence(tmp_path: Path, cron: str, zone: str | None, sentence: str) -> None:
    from flows.prefect.serving import prepare_serving

    with pytest.raises(InputError, match=sentence):
        prepare_serving(SETTINGS, cron, zone, {"PREFECT_API_URL": "x"}, tmp_path)


def test_the_schedule_is_in_the_sites_zone_under_a_name_of_its_own(tmp_path: Path) -> None:
    from flows.prefect.serving import prepare_serving
    from flows.services.run.run_names import site_slug

    found = prepare_serving(SETTINGS, "15 2 * * *", None, {"PREFECT_API_URL": "x"}, tmp_path)
    assert (found.name, found.timezone) == (site_slug("Oxbow"), "Europe/Oslo")
    assert prepare_serving(SETTINGS, "15 2 * * *", "UTC", {"PREFECT_API_URL": "x"}, tmp_path).timezone == "UTC"


def test_a_server_of_this_machine_is_taken_and_none_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.prefect import serving

    environment = {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)}
    monkeypatch.setattr(serving, "_stands_here", lambda: True)
    serving.prepare_serving(SETTINGS, "15 2 * * *", None, environment, tmp_path)
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    monkeypatch.setattr(serving, "_stands_here", lambda: False)
    with temporary_settings(restore_defaults={PREFECT_API_URL}), pytest.raises(WalltimeError, match="server start"):
        serving.prepare_serving(SETTINGS, "15 2 * * *", None, {"PREFECT_HOME": str(tmp_path)}, tmp_path)


def test_a_server_that_is_being_started_is_waited_for_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.prefect import serving

    answers, told = iter([False, False, True]), []
    monkeypatch.setattr(serving, "_stands_here", lambda: next(answers))
    monkeypatch.setattr(serving, "_PAUSE_S", 0.0)
    environment = {"HOME": str(tmp_path), "PREFECT_HOME": str(tmp_path)}
    serving.prepare_serving(SETTINGS, "15 2 * * *", None, environment, tmp_path, serving.Patience(60.0, told.append))
    assert environment["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    assert len(told) == 1 and told[0].startswith("Waiting up to 60 s for a Prefect server at http://127.0.0.1:4200/api")


def test_the_scheduler_of_the_installed_prefect_makes_runs(config: Path) -> None:
    """SQLAlchemy 2.1 breaks that of Prefect 3.8: its server then starts no run, ever."""
    from prefect.client.orchestration import get_client
    from prefect.schedules import Cron

    from flows.prefect.nightly import nightly

    deployment = nightly.to_deployment("oxbow", schedule=Cron("15 2 * * *", timezone="Europe/Oslo"))
    deployment_id = str(deployment.apply())
    asked = {"deployments": {"id": {"any_": [deployment_id]}}}
    with get_client(sync_client=True) as client:
        client.request("POST", "/deployments/{id}/schedule", path_params={"id": deployment_id}, json={"min_runs": 2})
        runs = client.request("POST", "/flow_runs/filter", json=asked).json()
    assert len(runs) >= 2 and {run["state_name"] for run in runs} == {"Scheduled"}
