"""Compiling ahead computes every step once, in two processes, and publishes nothing."""

import sys
from pathlib import Path

import pytest

from flows.cli.compile_kernels import main

ROOT = Path(__file__).parents[3]


def test_every_step_is_computed_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "site.toml"
    config.write_text(f"logs = ['{ROOT / 'data_samples' / 'traps.swf'}']\noutput_dir = '{tmp_path / 'out'}'\n")
    monkeypatch.setattr(sys, "argv", ["compile_kernels", str(config)])
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    main()
    assert capfd.readouterr().err.splitlines()[-1].startswith("Compiled kernels in ")
    assert list(tmp_path.iterdir()) == [config]
