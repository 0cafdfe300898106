"""Names that would colour a terminal, end a tag, open a link or become a formula, on every page of the product."""

import csv
import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.storage import write_table
from pipeline.tables import JOBS
from tests.flows.support import Outcome
from tests.rows import jobs_of
from tools.simulation.mpi_steps import HERE, simulated_run
from tools.simulation.trace_csv import csv_lines, write_csv

Walltime = Callable[..., Outcome]
ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "=[b]mk[/b]\x1b[31m\u202e<i>mk</i>|`$(id)`](http://mk)\n# mk"
FILE = "[b]mk[/b]\x1b[31m<i>"
DAY_S = 86_400
TIMES = "2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00"

SHOWN_ELSEWHERE = {
    "markdown": "tests/unit/flows/test_markdown.py",
    "charts": "tests/unit/flows/test_page.py",
    "blocks": "tests/unit/flows/test_render.py",
    "terminal": "tests/unit/flows/test_render.py",
    "page": "tests/unit/flows/test_page.py",
}
"""The tests of pages that no command below prints, by page."""

WITHOUT_NAMES = {"activity"}
"""Pages that print nothing of a log: stages and counts."""

COMMANDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "show": (("show", "--from", "OUT"), ()),
    "rows": (("show", "--from", "OUT", "jobs", "--limit", "3"), ()),
    "groups": (("show", "--from", "OUT", "groups"), ()),
    "versions": (("versions", "list", "--from", "OUT"), ()),
    "hold": (("versions", "pin", "--from", "OUT", "NOTHERE"), ()),
    "compare": (("versions", "compare", "--from", "OUT", "try-1", "try-1"), ()),
    "check": (("doctor", "--checks", "--from", "OUT"), ()),
    "doctor": (("doctor", "--from", "OUT"), ()),
    "advice": (("scaling", "advise", "--from", "OUT", "--application", HOSTILE), ("scaling",)),
    "query": (
        ("query", "--from", "OUT", "--user", HOSTILE, "--application", HOSTILE, "--procs", "4"),
        (),
    ),
    "report": (("report", "--from", "OUT", "--out", "TMP/pages"), ("site", "scaling")),
    "metrics": (("doctor", "--metrics", "-", "--from", "OUT"), ()),
    "phases": (
        ("phases", "find", "TRACE", "--application", HOSTILE, "--out", "TMP/phases", "--report", "TMP/phases.html"),
        ("phases",),
    ),
    "learn": (
        ("inputs", "learn", "RUNS", "--target", "time_s", "--out", "TMP/model.parquet"),
        ("phases",),
    ),
    "clean": (
        ("clean", "JOBS", "--out", "TMP/flagged.parquet", "--report", "TMP/clean.html"),
        ("clean",),
    ),
    "advise": (("limits", "JOBS", "--out", "TMP/advice"), ()),
    "backtest": (
        ("backtest", "CONFIG", "--log", "JOBS", "--methods", "last_two", "--report", "TMP/backtest.html"),
        ("studies",),
    ),
    "export": (("export", "--for", "csv", "TMP/csv", "--from", "OUT"), ()),
    "inspect": (("ingest", "--dry-run", "DUMP"), ()),
    "ingest": (("ingest", "DUMP", "--out", "TMP/jobs.csv"), ()),
    "ingest twice": (("ingest", "DUMP", "--out", "DUMP.parquet"), ()),
    "quarantine": (("show", "unreadable", "--from", "DUMP.unreadable.parquet"), ()),
    "init": (("init", "--log", "DUMP", "--out", "TMP/init.toml"), ()),
    "fit-series": (
        ("scaling", "fit", "SERIES", "--predict", "64", "--report", "TMP/series.html"),
        ("scaling",),
    ),
}
"""Command lines, and the pages that they print or write."""


REFUSED = {"hold", "init"}
"""Commands that end with a sentence about the name."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile log, a hostile CSV of runs, a config, and what a run published of the log."""
    folder = tmp_path_factory.mktemp("hostile") / FILE.replace("/", "_")
    folder.mkdir()
    random = np.random.default_rng(0)
    rows = [
        {
            "site": FILE, "user": HOSTILE if n % 3 else "ada", "account": HOSTILE, "application": HOSTILE,
            "queue": HOSTILE, "job_name": HOSTILE, "partition": HOSTILE, "submit_s": t, "start_s": t + 60,
            "end_s": t + 60 + int(s), "runtime_s": float(int(s)), "procs": procs, "requested_s": 7200.0,
            "source_file": HOSTILE,
        }
        for n in range(300)
        for t, procs in [(20_000 * DAY_S + 9_000 * n, 2 ** (n % 5))]
        for s in [5_000 / procs * random.lognormal(0, 0.05)]
    ]  # fmt: skip
    write_table(folder / "jobs.parquet", jobs_of(rows), JOBS)
    write_table(folder / "other.parquet", jobs_of([row | {"site": "site"} for row in rows]), JOBS)
    with (folder / "series.csv").open("w", newline="") as sink:
        writer = csv.writer(sink)
        writer.writerow(("application", "procs", "runtime_s"))
        writer.writerows((HOSTILE, n, 900 / n + 5) for n in (1, 2, 4, 8, 16, 32))
    write_csv(folder / "trace.csv", csv_lines(simulated_run(305, 2, HERE, 1)[0]))
    with (folder / "runs.csv").open("w", newline="") as sink:
        writer = csv.writer(sink)
        writer.writerow((HOSTILE, "n", "time_s"))
        writer.writerows((HOSTILE if n % 2 else "plain", n, 3 * n + n % 2) for n in range(10, 50))
    plain = HOSTILE.replace("|", "").replace("\n", "")
    (folder / "dump.txt").write_text(
        "JobID|User|Account|JobName|Partition|Submit|Start|End|State|AllocCPUS|ElapsedRaw\n"
        f"1|{plain}|{plain}|{plain}|{plain}|{TIMES}|COMPLETED|4|60\n2|{plain}|{plain}\n"
    )
    (folder / "site.toml").write_text(
        f"[site]\nname = {json.dumps(FILE)}\n[group]\ntemplate = ['user', 'application']\n"
    )
    return folder


@pytest.fixture(scope="module")
def published(place: Path) -> Path:

    from flows.services.run.running import rerun_and_keep, run_and_publish

    out, jobs = place / "out", str(place / "jobs.parquet")
    run_and_publish(str(place / "site.toml"), [jobs], None, str(out))
    rerun_and_keep(str(place / "site.toml"), "try-1", logs=[jobs], output_dir=str(out))
    return out


@pytest.mark.parametrize("name", COMMANDS)
def test_a_hostile_name_is_shown_as_it_is(name: str, place: Path, published: Path, walltime: Walltime) -> None:
    written = place / name
    written.mkdir()
    dump = f"{place}/dump.txt"
    stands_for = {"OUT": str(published), "JOBS": f"{place}/jobs.parquet", "OTHER": f"{place}/other.parquet"}
    stands_for |= {"SERIES": f"{place}/series.csv", "CONFIG": f"{place}/site.toml", "NOTHERE": HOSTILE, "DUMP": dump,
                   "TRACE": f"{place}/trace.csv", "RUNS": f"{place}/runs.csv"}  # fmt: skip
    stands_for |= {f"DUMP{suffix}": f"{place}/dump{suffix}" for suffix in (".parquet", ".unreadable.parquet")}
    words = [stands_for.get(word, word.replace("TMP", str(written))) for word in COMMANDS[name][0]]
    shown = walltime(*words)
    assert shown.code in ((2,) if name in REFUSED else (0, 3)), shown.err
    assert_shown_plainly(shown.out)
    assert_shown_plainly(shown.err)
    pages = [path for path in written.rglob("*") if path.suffix in (".html", ".md", ".txt", ".csv", ".toml")]
    for path in pages:
        assert_harmless(path)
    asked = [word for word in COMMANDS[name][0] if word.startswith("TMP") and not word.endswith(".parquet")]
    assert bool(pages) == (bool(asked) and name not in REFUSED)


def assert_shown_plainly(text: str) -> None:
    """No control or bidi character, and no markup of rich taken for its own."""
    odd = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"}
    assert odd == set(), sorted(odd)
    assert re.search(r"=mk|(?<!\])mk\\x1b", text) is None, text


def assert_harmless(path: Path) -> None:
    """What a page, a table or a text that is written makes of the names."""
    text = path.read_text()
    if path.suffix == ".csv":
        cells = [cell for row in csv.reader(path.open(newline="")) for cell in row]
        assert [cell for cell in cells if cell.startswith(("=", "+", "@"))] == []
        return  # other characters are those of the table, and not for a terminal
    odd = {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t"}
    assert odd == set(), (path.name, odd)
    if path.suffix == ".html":
        assert "<i>mk" not in text
    if path.suffix == ".md":
        assert "<i>mk" not in text and "](http" not in text and "\n# mk" not in text


def test_every_page_is_walked() -> None:
    folder = ROOT / "flows" / "pages"
    pages = {".".join(path.relative_to(folder).with_suffix("").parts) for path in folder.rglob("*.py")}
    pages = {page for page in pages if not page.endswith("__init__")}
    walked = {page for _, shown in COMMANDS.values() for page in shown}
    assert pages - walked - set(SHOWN_ELSEWHERE) == WITHOUT_NAMES
    for test in SHOWN_ELSEWHERE.values():
        assert re.search(r"x1b|u202e|<script", (ROOT / test).read_text()), test


def test_a_control_character_is_escaped_in_a_csv_as_on_a_terminal(walltime: Walltime, tmp_path: Path) -> None:
    log = tmp_path / "dump.txt"
    name = "a\x1b[31mred\u202e"
    log.write_text(f"JobID|User|JobName|Submit|State\n1|u7|{name}|2023-11-15T10:10:00|PENDING\n", encoding="utf-8")
    assert walltime("ingest", log, "--out", tmp_path / "jobs.csv").code == 0
    text = (tmp_path / "jobs.csv").read_text(encoding="utf-8")
    assert "a\\x1b[31mred\\u202e" in text and "\x1b" not in text and "\u202e" not in text
