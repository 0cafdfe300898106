"""Every command of the documents is run, in their order, in one folder as a checkout is, and its output is compared.

A command that several documents have is run once. `walltime` runs in this process, which saves its imports; everything
else runs in a shell. Commands that need a cluster, go on, or take minutes are listed by the last test.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents.console_blocks import Command, commands_of, matches
from tests.flows.support import Outcome

pytestmark = pytest.mark.slow


ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tutorials", "how-to", "explanations")
DOCUMENTS = [
    ROOT / "docs" / "quickstart.md",  # its tables answer what README asks first
    ROOT / "README.md",
    *[path for folder in FOLDERS for path in sorted((ROOT / "docs" / folder).glob("*.md"))],
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "quickstart.md"),
]
COMMANDS = [one for path in DOCUMENTS for one in commands_of(path, ROOT)]
RUN = [one for one in COMMANDS if one.why_not is None]
SHELL = set("|&;<>()$`*?{}\n")
PUBLIC = ("configs", "data_samples", "docs")


class Checkout:
    """A folder with the files that the documents name, and what the commands up to now gave in it."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.outcomes: dict[str, Outcome] = {}
        for name in PUBLIC:
            (folder / name).symlink_to(ROOT / name)
        self.capture = capture

    def outcome(self, command: Command) -> Outcome:
        """What the command gave; those before it in the documents are run first."""
        for one in RUN[: RUN.index(command) + 1]:
            if one.text not in self.outcomes:
                self.outcomes[one.text] = self._run(one.text)
        return self.outcomes[command.text]

    def _run(self, text: str) -> Outcome:
        if text.startswith("walltime ") and not SHELL & set(text):
            return self._in_this_process(shlex.split(text)[1:])
        program = f'walltime() {{ "{sys.executable}" -m flows.cli "$@"; }}\n{text}'
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            ["bash", "-c", program], cwd=self.folder, env=environment, check=False, capture_output=True, text=True
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def _in_this_process(self, arguments: list[str]) -> Outcome:
        from flows.cli import main

        self.capture.readouterr()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ending:
            patch.chdir(self.folder)
            patch.setattr("sys.argv", ["walltime", *arguments])
            main()
        shown = self.capture.readouterr()
        code = ending.value.code
        return Outcome(code if isinstance(code, int) else int(code is not None), shown.out, shown.err)


_CHECKOUTS: dict[Path, Checkout] = {}


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]) -> Iterator[Checkout]:
    """One folder for all tests of this file."""
    if not _CHECKOUTS:
        folder = tmp_path_factory.mktemp("checkout")
        _CHECKOUTS[folder] = Checkout(folder, capfd)
    found = next(iter(_CHECKOUTS.values()))
    found.capture = capfd
    yield found


@pytest.mark.parametrize("command", RUN, ids=[f"{one.document}:{one.line}" for one in RUN])
def test_a_command_does_what_its_document_says(command: Command, checkout: Checkout) -> None:
    outcome = checkout.outcome(command)
    assert outcome.code == 0, f"{command.text}\n{outcome.out}{outcome.err}"
    if command.shown:
        printed = outcome.out + outcome.err
        fits = matches(command.shown, outcome.out) or matches(command.shown, printed)
        assert fits, f"{command.document}, line {command.line} shows\n{chr(10).join(command.shown)}\nand not\n{printed}"


def test_what_is_not_run_has_a_reason(capfd: pytest.CaptureFixture[str]) -> None:
    with capfd.disabled():
        for one in COMMANDS:
            if one.why_not is not None:
                sys.stdout.write(f"\nnot run ({one.why_not}): {one.document}:{one.line}: {one.text}")
    assert all(one.why_not != "" for one in COMMANDS)
    assert len({one.text for one in RUN}) > 30


@pytest.mark.parametrize(
    ("document", "made_by", "last"),
    [
        ("tutorials/parquet-to-plot.md", None, "len(axes.get_legend().texts) == 2"),
        ("tutorials/sacct-to-tables.md", "tutorials/sacct-to-tables.md", "len(plt.gca().get_legend().texts) == 3"),
        ("reference/tables.md", "quickstart.md", "len(set(rows.label)) > 40"),
    ],
)
def test_the_python_of_the_documents_runs(document: str, made_by: str | None, last: str, checkout: Checkout) -> None:
    """The programs of a page one after the other, on the tables that commands made; groups get their names.

    A text below a program is what it prints.
    """
    page = (ROOT / "docs" / document).read_text(encoding="utf-8")
    program = "".join(re.findall(r"(?ms)^```python\n(.*?)^```$", page))
    shown = re.findall(r"(?ms)^```python\n(?:(?!```).)*^```\n\n```text\n(.*?)^```$", page)
    if made_by is not None:
        checkout.outcome([one for one in RUN if one.document == f"docs/{made_by}"][-1])
    environment = os.environ | {"MPLBACKEND": "agg", "PYTHONPATH": str(ROOT)}
    checked = f"{program}\nassert {last}"
    call = [sys.executable, "-c", checked]
    done = subprocess.run(call, cwd=checkout.folder, env=environment, check=True, capture_output=True, text=True)
    expected = [line for text in shown for line in (*text.splitlines(), "...")]
    assert matches(tuple(expected), done.stdout), done.stdout


def test_the_sample_parquet_is_a_day_of_the_simulator() -> None:
    import pandas as pd

    import walltime as wt

    mine = pd.read_parquet(ROOT / "docs" / "samples" / "jobs.parquet")
    day = wt.read(ROOT / "data_samples" / "millrace.sacct.txt")
    same = {"JobID": "job_id", "Owner": "user", "Code": "application", "Cores": "procs", "State": "state"}
    for name, column in same.items():
        assert mine[name].tolist() == day[column].tolist()
    for name, column in {"Submitted": "submit_s", "Started": "start_s", "Ended": "end_s"}.items():
        instants = pd.to_datetime(day[column], unit="s", utc=True)
        assert ((mine[name] == instants) | (mine[name].isna() & instants.isna())).all()
