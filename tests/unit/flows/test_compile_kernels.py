"""Compiling ahead runs every step once, in three processes, and publishes nothing."""

from pathlib import Path

from flows.services.run.compile_kernels import FIRST, LEARNING, compile_kernels
from flows.services.run.prepare import prepare
from pipeline.run import STEPS

ROOT = Path(__file__).parents[3]


def test_every_step_is_done_once(tmp_path: Path) -> None:
    run, folder = prepare(
        ROOT / "configs" / "sample.toml", [str(ROOT / "data_samples" / "traps.swf")], None, str(tmp_path)
    )
    assert list(compile_kernels(run)) == list(range(1, len(STEPS) + 1))
    assert list(folder.iterdir()) == []


def test_steps_that_run_beside_others_need_only_the_first_ones_tables() -> None:
    written = {name: step.name for step in STEPS for name in step.writes}
    read = {name: {written[table] for table in step.reads} for step in STEPS for name in [step.name]}
    assert all(read[name] <= set(FIRST) for name in FIRST)
    assert all(read[name] <= set(FIRST + LEARNING) for name in LEARNING)
    assert not any(read[name] & set(LEARNING) for name in read if name not in LEARNING)
