"""The template of the run before: kept over new logs, and no part of a run over the same ones."""

import shutil
from pathlib import Path

import pytest

from flows.services.logs import resolve, run_settings
from flows.services.run.running import prepare_run, run_and_publish
from pipeline.publish import Retention, load_manifest
from pipeline.storage import write_table
from pipeline.tables import TEMPLATES
from tests.publishing import facts_of, publish

TRAPS = Path(__file__).parents[3] / "data_samples" / "traps.swf"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A site whose log is a copy of the small sample."""
    shutil.copy(TRAPS, tmp_path / "log.swf")
    path = tmp_path / "site.toml"
    path.write_text(f"logs = ['log.swf']\noutput_dir = '{tmp_path / 'out'}'\n")
    return path


def test_the_choice_is_handed_to_the_next_run_over_other_logs(config: Path) -> None:
    assert prepare_run(*resolve(config)).previous_template == ""
    run_and_publish(str(config))
    first = load_manifest(config.parent / "out")
    again = prepare_run(*resolve(config))
    assert (again.previous_template, again.run_id) == ("", first.run_id)
    with (config.parent / "log.swf").open("a") as log:
        log.write("99999 999999 0 5 1 -1 -1 1 60 -1 1 1 1 1 1 1 -1 -1\n")
    later = prepare_run(*resolve(config))
    assert later.previous_template == "user+application+requested_memory"
    run_and_publish(str(config))
    repeated = prepare_run(*resolve(config))
    assert repeated.previous_template == later.previous_template
    assert repeated.run_id == load_manifest(config.parent / "out").run_id != first.run_id


def test_a_list_or_another_site_has_no_previous_choice(config: Path) -> None:
    run_and_publish(str(config))
    (config.parent / "log.swf").write_bytes(TRAPS.read_bytes() + b"; changed\n")
    assert prepare_run(*resolve(config)).previous_template != ""
    assert prepare_run(run_settings(config, "elsewhere"), resolve(config)[1]).previous_template == ""
    config.write_text(config.read_text() + "[group]\ntemplate = ['user']\n")
    assert prepare_run(*resolve(config)).previous_template == ""


def test_a_damaged_table_of_templates_is_no_previous_choice(config: Path) -> None:
    """A flipped byte keeps the size: the text is then no UTF-8, breaks its declaration, or is another template."""
    table = TEMPLATES.build(
        template=["user", "account"], is_chosen=[True, False], is_previous=[False, False], n_groups=[3, 3]
    )
    staged = {"templates": write_table(config.parent / "staged/templates.parquet", table, TEMPLATES)}
    facts = facts_of("run", prepare_run(*resolve(config)).settings.site.name, {}, [("old.swf", "00")], "code")
    publish(staged, [], facts, output_dir=config.parent / "out", created_s=0, retention=Retention(newest=2))
    assert prepare_run(*resolve(config)).previous_template == "user"
    path = load_manifest(config.parent / "out").path("templates")
    whole = path.read_bytes()
    for at in range(4, len(whole), 29):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        assert prepare_run(*resolve(config)).previous_template == ""
