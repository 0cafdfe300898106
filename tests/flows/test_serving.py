"""What `walltime serve` checks before it serves, and that Prefect's scheduler works with the installed libraries."""

import re
from pathlib import Path

import pytest

from pipeline.errors import InputError, WalltimeError
from pipeline.settings import RunSettings

pytestmark = pytest.mark.usefixtures("prefect")

SETTINGS = RunSettings.model_validate({"site": {"name": "Oxbow", "timezone": "Europe/Oslo"}})


@pytest.mark.parametrize(
    ("cron", "zone", "sentence"),
    [("1 2 3", None, "no cron schedule"), ("", None, "no cron schedule"), ("15 2 * * *", "Oslo", "no time zone")],
)
def test_a_bad_schedule_is_one_sentence(cron: str, zone: str | None, sentence: str) -> None:
    from flows.prefect.serving import prepare_serving

    with pytest.raises(InputError, match=sentence):
        prepare_serving(SETTINGS, cron, zone)


def test_the_schedule_is_in_the_sites_zone_under_a_name_of_its_own() -> None:
    from prefect.settings import PREFECT_API_URL

    from flows.prefect.serving import prepare_serving
    from flows.services.initialising import site_slug

    found = prepare_serving(SETTINGS, "15 2 * * *", None)
    assert (found.name, found.timezone) == (site_slug("Oxbow"), "Europe/Oslo")
    assert found.api == PREFECT_API_URL.value()
    assert prepare_serving(SETTINGS, "15 2 * * *", "UTC").timezone == "UTC"


def test_a_server_of_this_machine_is_taken_and_none_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.prefect import serving

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        monkeypatch.setattr(serving, "answers", lambda _: True)
        assert serving.prepare_serving(SETTINGS, "15 2 * * *", None).api == "http://127.0.0.1:4200/api"
        monkeypatch.setattr(serving, "answers", lambda _: False)
        with pytest.raises(WalltimeError, match=r"no server answers at .*4200/api; start one with"):
            serving.prepare_serving(SETTINGS, "15 2 * * *", None)


def test_a_server_answers_or_it_does_not() -> None:
    from prefect.settings import PREFECT_API_URL

    from flows.prefect import serving

    assert serving.answers(str(PREFECT_API_URL.value())) and not serving.answers("http://127.0.0.1:9/api")


def test_a_server_that_is_being_started_is_waited_for_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.prefect import serving

    found, told = iter([False, False, True]), []
    monkeypatch.setattr(serving, "answers", lambda _: next(found))
    monkeypatch.setattr(serving, "_PAUSE_S", 0.0)
    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        serving.prepare_serving(SETTINGS, "15 2 * * *", None, 60.0, told.append)
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


def test_the_shipped_prefect_yaml_names_flows_that_exist() -> None:
    from prefect.flows import load_flow_from_entrypoint

    text = (Path(__file__).parents[2] / "prefect.yaml").read_text()
    entrypoints = re.findall(r"entrypoint: (\S+)", text)
    assert {load_flow_from_entrypoint(one.replace(":", ".")).name for one in entrypoints} == {"nightly", "rerun"}
