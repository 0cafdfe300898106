"""A run's identity: what changes it, and what does not."""

import shutil
from pathlib import Path

import pytest

from pipeline import run
from pipeline.run import STEPS, start_run, step_key
from pipeline.settings import ExportSettings, GuardSettings, PublishSettings, RunSettings, SiteSettings
from tools.plain_run import run_plain

SAMPLE = Path(__file__).parents[3] / "data_samples" / "traps.swf"


def test_the_same_logs_settings_and_code_are_the_same_run(tmp_path: Path) -> None:
    copy = Path(shutil.copy(SAMPLE, tmp_path))
    settings = RunSettings(
        output_dir="elsewhere", publish=PublishSettings(keep_versions=2), export=ExportSettings(max_age_days=3.0),
        guard=GuardSettings(scheduler="pbs"),
    )  # fmt: skip
    assert start_run(RunSettings(), [SAMPLE]).run_id == start_run(settings, [copy]).run_id


def test_other_settings_bytes_or_names_are_another_run(tmp_path: Path) -> None:
    renamed = Path(shutil.copy(SAMPLE, tmp_path / "other.swf"))
    changed = tmp_path / "traps.swf"
    changed.write_bytes(SAMPLE.read_bytes() + b"; one more comment\n")
    elsewhere = RunSettings(site=SiteSettings(name="elsewhere"))
    runs = [start_run(RunSettings(), [path]) for path in (SAMPLE, renamed, changed)]
    assert len({run.run_id for run in [*runs, start_run(elsewhere, [SAMPLE])]}) == 4


def test_two_logs_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    folders = [tmp_path / year for year in ("2024", "2025", "2026")]
    for folder in folders:
        folder.mkdir()
        shutil.copy(SAMPLE, folder)
    one, two = (start_run(RunSettings(), [folders[0] / "traps.swf", folder / "traps.swf"]) for folder in folders[1:])
    assert one.log_labels == ("2024/traps.swf", "2025/traps.swf")
    assert one.run_id != two.run_id
    assert step_key(STEPS[0], one, ()) != step_key(STEPS[0], two, ())


def test_a_step_that_does_not_read_a_setting_keeps_its_key() -> None:
    one = start_run(RunSettings(), [SAMPLE])
    two = start_run(RunSettings.model_validate({"scaling": {"counts": [3]}}), [SAMPLE])
    keys = [{step.name: step_key(step, run, ("upstream",)) for step in STEPS} for run in (one, two)]
    same = {name for name in keys[0] if keys[0][name] == keys[1][name]}
    changed = keys[0].keys() - same
    # `inputs`, `memory` and `waste` do not read the setting, but their rows state the run.
    assert changed == {"fit", "curves", "predict", "scalability", "estimate", "advise", "inputs", "memory", "waste"}


def test_other_rules_for_inputs_are_another_ingest() -> None:
    """A run that kept the jobs of an earlier one had the inputs of the earlier rules."""
    given = {"inputs": {"rules": [{"find": "heat_(?P<n>[0-9]+)"}]}}
    one, two = (start_run(RunSettings.model_validate(plain), [SAMPLE]) for plain in ({}, given))
    assert step_key(STEPS[0], one, ()) != step_key(STEPS[0], two, ())


def test_every_step_reads_the_settings_that_it_names_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[set[str]] = []

    class Watched(run.StepInput):
        def __init__(self, of: run.Run, names: tuple[str, ...]) -> None:
            super().__init__(of, names)
            read.append(set())
            self.__dict__["seen"] = read[-1]

        def __getattribute__(self, name: str) -> object:
            if not name.startswith("__") and name != "seen":
                self.seen.add(name)
            return super().__getattribute__(name)

    monkeypatch.setattr(run, "StepInput", Watched)
    assert [step.name for step, _, _ in run_plain(start_run(RunSettings(), [SAMPLE]))] == [s.name for s in STEPS]
    # Ingest reads the key that hashes names from a file, and has the rules of `inputs` in its own settings.
    read[0] |= {"names", "inputs"}
    assert [seen - {"folder"} for seen in read] == [set(step.settings) for step in STEPS]


def test_a_step_that_reads_what_it_does_not_name_fails() -> None:
    step = run.Step("one", {}, ("site",), lambda given: given.group)
    with pytest.raises(AttributeError, match="a step reads group, which it does not name"):
        step.call(start_run(RunSettings(), [SAMPLE]))
