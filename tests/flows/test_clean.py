"""`walltime clean`: tables, figures and page; hostile names, odd logs, and one sentence for what is no table."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.storage import read_table, write_table
from pipeline.tables import BURSTS, EFFECT, JOBS, UNREADABLE
from tests.flows.support import SAMPLES, Outcome
from tests.rows import jobs_of

Walltime = Callable[..., Outcome]
DAY_S = 86_400
HOSTILE = (
    "<script>alert(1)</script>", "$\\x$ {{ 7*7 }}", "two\nlines\x1b[31m", "\u202eevil\u202c", '"><img src=x onerror=y>',
    "#0a0b03", "名前 & co", "</title></svg>", "-->", "]]>", "lane-0", "1.23456789",
)  # fmt: skip


def quiet_users(n_days: int = 70, per_day: int = 6) -> list[dict[str, object]]:
    """A few users who submit a few jobs every day."""
    return [
        {"user": f"u{n % 6}", "submit_s": t, "start_s": t + 60, "end_s": t + 660, "runtime_s": 600.0}
        for n in range(n_days * per_day)
        for t in [DAY_S * (20_000 + n // per_day) + 3_600 * (n % per_day)]
    ] * 3


def burst(user: str, day: int, n: int = 400) -> list[dict[str, object]]:
    """Many alike jobs within an hour."""
    begin = DAY_S * (20_000 + day)
    return [
        {"user": user, "application": user, "submit_s": t, "start_s": t + 9, "end_s": t + 39, "runtime_s": 30.0}
        for t in range(begin, begin + 9 * n, 9)
    ]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[list[dict[str, object]]], Path]:
    def to_file(rows: list[dict[str, object]]) -> Path:
        # A server gives its ids out in order of submit.
        in_order = sorted(rows, key=lambda row: row.get("submit_s", 0) or 0)
        table = jobs_of(in_order) if rows else JOBS.empty()
        return write_table(tmp_path / "jobs.parquet", table, JOBS)

    return to_file


@pytest.fixture
def sample(walltime: Walltime, tmp_path: Path) -> Path:
    """The sample log's jobs."""
    path = tmp_path / "sample.parquet"
    assert walltime("ingest", SAMPLES / "riverbend.swf.gz", "--out", path, "--site", "riverbend").code == 0
    return path


class Tags(HTMLParser):
    """Names of the tags of a page, and whether all that are opened are closed in order."""

    VOID = ("meta", "br", "link", "img")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str) -> Tags:
    """What holds of every page: well-formed, no script, nothing from a network."""
    tags = Tags(page)
    assert not tags.open
    assert not tags.names & {"script", "img", "link", "iframe", "object", "b<", "base", "form"}
    assert not [name for name in tags.attributes if name.startswith("on")] and "src" not in tags.attributes
    assert "http" not in re.sub(r'xmlns(:\w+)?="http://www\.w3\.org/[^"]*"', "", page)
    assert set(re.findall(r'href="(.)', page)) <= {"#"} and "url(" not in page.replace("url(#", "")
    for svg in re.findall(r"(?s)<svg.*?</svg>", page):
        ET.fromstring(svg)
    return tags


def test_the_sample_cleaned(sample: Path, tmp_path: Path, walltime: Walltime) -> None:
    out, page = tmp_path / "new folder/flagged.parquet", tmp_path / "page.html"
    shown = walltime("clean", sample, "--out", out, "--report", page)
    assert (shown.code, shown.err) == (0, "")
    jobs, bursts = read_table(out, JOBS), read_table(out.with_name("flagged.bursts.parquet"), BURSTS)
    effect = read_table(out.with_name("flagged.effect.parquet"), EFFECT)
    assert jobs.num_rows == read_table(sample, JOBS).num_rows
    assert jobs.column("flag").null_count < jobs.num_rows
    words = ("set aside: probe", "smallest burst that this log can show", "before", "after", "suspect", "Wrote page")
    for word in (*words, *bursts.column("burst_id").to_pylist(), *bursts.column("why").to_pylist()):
        assert word in shown.out, word
    assert effect.column("selection").to_pylist()[:2] == ["before", "after"]
    text = page.read_text()
    check_page(text)
    for word in (
        "riverbend",
        "Jobs per day",
        "runtime spread</th>",
        "[[clean.keep]]",
        "jobs per day".title()[:4],
    ):
        assert word in text
    assert all(word in text for word in bursts.column("burst_id").to_pylist())
    assert text.count("<svg") == 2 and len(text) < 400_000
    assert sorted(path.name for path in out.parent.iterdir()) == [
        "flagged.bursts.parquet", "flagged.effect.parquet", "flagged.parquet",
    ]  # fmt: skip


def test_the_same_input_gives_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        out, page = tmp_path / f"{name}.parquet", tmp_path / f"{name}.html"
        call = [sys.executable, "-m", "flows.cli", "clean", str(sample), "--out", str(out), "--report", str(page)]
        subprocess.run(call, check=True, cwd=Path(__file__).parents[2], capture_output=True)
    for suffix in (".html", ".parquet", ".bursts.parquet", ".effect.parquet"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_json_is_all_there_is_on_stdout(sample: Path, tmp_path: Path, walltime: Walltime) -> None:
    found = json.loads(walltime("clean", sample, "--out", tmp_path / "f.csv", "--json").out)
    assert found["report"]["seen"]["rows"] == found["effect"][0]["n_jobs"]
    assert [burst["outcome"] for burst in found["bursts"]] == sorted(burst["outcome"] for burst in found["bursts"])
    assert set(found["written"]) == {"jobs", "bursts", "effect"}
    assert (tmp_path / "f.bursts.csv").read_text().startswith('"burst_id"')


def test_hostile_names_neither_break_the_page_nor_stay_out_of_it(
    write: Callable[..., Path], tmp_path: Path, walltime: Walltime
) -> None:
    rows = quiet_users()
    for place, user in enumerate(HOSTILE):
        rows += burst(user, 2 + 5 * place)
    source = write([row | {"site": HOSTILE[0], "source_file": HOSTILE[2]} for row in rows])
    page = tmp_path / "page.html"
    shown = walltime("clean", source, "--out", tmp_path / "f.parquet", "--report", page, "--all")
    assert (shown.code, shown.err) == (0, "")
    found = pq.read_table(tmp_path / "f.bursts.parquet").column("user").to_pylist()
    assert set(HOSTILE) <= set(found)
    text = page.read_text(encoding="utf-8")
    check_page(text)
    for unwanted in ("\x1b", "\u202e", "<script", "two\nlines"):
        assert unwanted not in text and unwanted not in shown.out.replace("<script>alert", "")
    for wanted in (
        "&lt;script&gt;alert(1)",
        "$\\x$ {{ 7*7 }}",
        "two\\nlines",
        "\\u202eevil",
        "名前 &amp; co",
        "1.23456789",
        "#0a0b03",
    ):
        assert wanted in text, wanted


def test_a_log_without_jobs(write: Callable[..., Path], tmp_path: Path, walltime: Walltime) -> None:
    page = tmp_path / "page.html"
    shown = walltime("clean", write([]), "--out", tmp_path / "f.parquet", "--report", page)
    assert (shown.code, shown.err) == (0, "")
    text = page.read_text()
    check_page(text)
    assert "No job has a submit time" in text and "<svg" not in text
    assert read_table(tmp_path / "f.bursts.parquet", BURSTS).num_rows == 0


@pytest.mark.parametrize(
    "odd",
    [
        {"submit_s": None, "start_s": None, "end_s": None},
        {"submit_s": 0, "start_s": 0, "end_s": 0, "runtime_s": 0.0, "procs": None},
        {"submit_s": -5, "runtime_s": 1e300, "procs": 2**60},
        {"submit_s": 2**40, "start_s": 2**40, "end_s": 2**40 + 5},
        {"user": None, "application": None, "state": None},
    ],
)
def test_odd_jobs_still_make_a_page(
    write: Callable[..., Path], tmp_path: Path, walltime: Walltime, odd: dict[str, object]
) -> None:
    for name, rows in (("few", [odd, odd]), ("many", [*quiet_users(), odd])):
        page = tmp_path / f"{name}.html"
        shown = walltime("clean", write(rows), "--out", tmp_path / "f.parquet", "--report", page)
        assert (shown.code, shown.err) == (0, "")
        check_page(page.read_text())


def test_a_log_without_bursts(write: Callable[..., Path], tmp_path: Path, walltime: Walltime) -> None:
    page = tmp_path / "page.html"
    assert walltime("clean", write(quiet_users()), "--out", tmp_path / "f.parquet", "--report", page).code == 0
    text = page.read_text()
    check_page(text)
    assert "None was found." in text and text.count("<svg") == 2


def test_what_the_site_decides_reaches_terminal_and_page(
    write: Callable[..., Path], tmp_path: Path, walltime: Walltime
) -> None:
    source = write([*quiet_users(), *burst("loud", 30, 900)])
    out, page, config = tmp_path / "f.parquet", tmp_path / "page.html", tmp_path / "site.toml"
    before = json.loads(walltime("clean", source, "--out", out, "--json").out)["bursts"][0]
    assert before["outcome"] == "set aside"
    reason = "a study, <announced>"
    config.write_text(
        f"[site]\nname = 'here'\nmax_procs = 64\n[clean.maximum]\nqueue_runtime_s = {{ '*' = 864000 }}\n"
        f"[[clean.keep]]\nburst = '{before['burst_id']}'\nreason = '{reason}'\n"
    )
    shown = walltime("clean", source, "--out", out, "--report", page, "--config", config)
    text = page.read_text()
    assert "kept by rule" in shown.out and reason in shown.out
    assert "kept by rule" in text and "a study, &lt;announced&gt;" in text
    assert pq.read_table(out, columns=["flag"]).column("flag").null_count == len(quiet_users()) + 900


def test_the_snippet_of_a_page_is_a_config(sample: Path, tmp_path: Path, walltime: Walltime) -> None:
    page, config = tmp_path / "page.html", tmp_path / "site.toml"
    assert walltime("clean", sample, "--out", tmp_path / "f.parquet", "--report", page).code == 0
    snippet = re.search(r"(?s)<pre>(.*?)</pre>", page.read_text())
    assert snippet
    config.write_text(snippet[1].replace("&#34;", '"'))
    after = json.loads(walltime("clean", sample, "--out", tmp_path / "f.parquet", "--config", config, "--json").out)
    assert "site_drop" in after["report"]["set_aside"]
    assert "kept by rule" in [one["outcome"] for one in after["bursts"]]


NO_JOBS = ("nothing there", "a folder", "a text", "another parquet", "another table", "a broken table", "cut short")


@pytest.mark.parametrize("what", NO_JOBS)
def test_what_is_no_table_of_jobs_is_one_sentence(tmp_path: Path, walltime: Walltime, what: str) -> None:
    source = tmp_path / "source.parquet"
    jobs = jobs_of([{}])
    if what == "a folder":
        source.mkdir()
    elif what == "a text":
        source.write_text("; MaxProcs: 64\n1 2 3\n")
    elif what == "another parquet":
        pq.write_table(pa.table({"x": [1]}), source)
    elif what == "another table":
        write_table(source, UNREADABLE.empty(), UNREADABLE)
    elif what == "a broken table":
        pq.write_table(jobs.drop_columns(["flag"]).replace_schema_metadata({"table": "jobs"}), source)
    elif what == "cut short":
        source.write_bytes(write_table(source, jobs, JOBS).read_bytes()[:-100])
    refused = walltime("clean", source, "--out", tmp_path / "out/f.parquet", "--report", tmp_path / "out/p.html")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("walltime: ") and refused.err.count("\n") == 1 and refused.err.endswith(".\n")
    assert "source.parquet" in refused.err and "expected a table of" in refused.err
    assert not (tmp_path / "out").exists()


def test_paths_in_each_other_s_way_are_refused(write: Callable[..., Path], tmp_path: Path, walltime: Walltime) -> None:
    source = write([{}])
    before = source.read_bytes()
    for out, page in (
        ("f.parquet", "jobs.parquet"),
        ("f.parquet", "f.bursts.parquet"),
        ("f.parquet", "."),
        ("f.parquet", "page.txt"),
        ("f.txt", "p"),
    ):
        refused = walltime("clean", source, "--out", tmp_path / out, "--report", tmp_path / page)
        assert refused.code == 2 and refused.err.count("\n") == 1
    assert source.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["jobs.parquet"]


def test_a_page_that_cannot_be_written_leaves_no_table(
    write: Callable[..., Path], tmp_path: Path, walltime: Walltime
) -> None:
    source = write([{}])
    (tmp_path / "file").write_text("in the way")
    refused = walltime("clean", source, "--out", tmp_path / "f.parquet", "--report", tmp_path / "file/page.html")
    assert refused.code == 2 and refused.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "jobs.parquet"]


def test_a_table_may_be_cleaned_in_place(write: Callable[..., Path], tmp_path: Path, walltime: Walltime) -> None:
    source = write([*quiet_users(), *burst("loud", 30, 900)])
    assert walltime("clean", source, "--out", source).code == 0
    first = source.read_bytes()
    assert walltime("clean", source, "--out", source).code == 0
    assert source.read_bytes() == first


def test_nothing_is_drawn_unless_asked(sample: Path, tmp_path: Path) -> None:
    script = f"""
import sys
from flows.cli.typer_app import application
try:
    application()(["clean", {str(sample)!r}, "--out", {str(tmp_path / "f.parquet")!r}], standalone_mode=False)
finally:
    names = ("matplotlib", "jinja2", "prefect", "duckdb", "pipeline.run", "pipeline.scaling")
    print("loaded:", *(name for name in names if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_a_run_publishes_bursts_and_effect(config: Path, tmp_path: Path, walltime: Walltime) -> None:
    assert walltime("run", config, "--plain", "--quiet").code == 0
    shown = walltime("show", "--from", tmp_path / "out").out
    assert "bursts" in shown and "effect" in shown
    effect = json.loads(walltime("show", "--from", tmp_path / "out", "effect", "--json").out)
    assert [row["selection"] for row in effect["shown"]][:2] == ["before", "after"]
    assert walltime("show", "--from", tmp_path / "out", "bursts").code == 0
