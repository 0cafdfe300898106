"""Writes the pages of a published run: one per application, their index, and the page of the site."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from flows.pages.answers.scaling import series_page
from flows.pages.answers.site import index_page, site_page
from flows.services.files.os_errors import naming_path
from flows.services.files.table_files import write_page
from flows.services.published.published_folder import compared_templates
from flows.services.site_facts import LISTED
from pipeline.errors import printable
from pipeline.publish import Manifest
from pipeline.report import count_done
from pipeline.scaling.advice import CostSettings, answered, series_as_dicts
from pipeline.scaling.problem_sizes import weak_of
from pipeline.storage import read_table
from pipeline.tables import FITS, GROUPS, OBSERVATIONS, PATTERNS, PREDICTIONS, SCALABILITY

Rows = Sequence[Mapping[str, Any]]

SERIES_A_PAGE = 25
MIN_SIZES = 2
SITE_PAGE = "site.html"

OTHER_PAGES = {
    SITE_PAGE: "the site",
    "clean.html": "what cleaning did",
    "backtest.html": "errors of the estimates",
    "replay.html": "what other estimates would have gained",
}
"""Files of other commands that the index links where they stand in its folder."""

UNNAMED = "jobs of no known application"


def write_pages(manifest: Manifest, facts: Mapping[str, Any], folder: Path, cost: CostSettings) -> list[Path]:
    """Write a page per application with a group of two sizes or a weak-scaling series, their index, and the site's.

    Returns the paths of index.html, of site.html, which shows the `site_facts`, and of the pages. A page lists groups
    that gain from processors first, then those with most jobs, and says how many it omits.
    """
    table_kinds = (OBSERVATIONS, PATTERNS, FITS, PREDICTIONS, SCALABILITY)
    tables = {kind.name: read_table(manifest.path(kind.name), kind) for kind in table_kinds}
    with naming_path(folder):
        folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, Path] = {}
    every = _by_application(manifest, set(tables[SCALABILITY.name].column("group_id").to_pylist()))
    asked = {row["name"] or UNNAMED: row for row in facts["applications"]}
    for name in sorted(every, key=_natural):
        drawn = [group for group in every[name] if group["n_sizes"] >= MIN_SIZES]
        weak = _weak(every[name], tables[OBSERVATIONS.name])
        if drawn or weak:
            series = _shown(drawn, tables, cost)
            title = f"Application {name}" if name.isdecimal() else name
            page = series_page(title, series, len(drawn), weak=weak, doubt=facts["doubt"], asked=asked.get(name))
            pages[name] = write_page(folder / page_name(name), page)
            count_done("pages")
    listed = facts["applications"][:LISTED]
    paths = [pages.get(row["name"] or UNNAMED) for row in listed]
    shown = dict(facts) | {
        "applications": [{**row, "link": path and quote(path.name)} for row, path in zip(listed, paths, strict=True)],
        "n_hidden": len(facts["applications"]) - len(listed),
        "others": {of: file for file, of in OTHER_PAGES.items() if file == SITE_PAGE or (folder / file).is_file()},
        "templates": compared_templates(manifest),
    }  # fmt: skip
    written = [
        write_page(folder / "index.html", index_page(shown)), write_page(folder / SITE_PAGE, site_page(shown)),
    ]  # fmt: skip
    return [*written, *pages.values()]


def _by_application(manifest: Manifest, gaining: set[str]) -> dict[str, list[dict[str, Any]]]:
    """The groups by application: those that gain from processors first, then in falling order of jobs."""
    groups = read_table(manifest.path(GROUPS.name), GROUPS).to_pylist()
    found: dict[str, list[dict[str, Any]]] = {}
    for group in sorted(groups, key=lambda row: (row["group_id"] not in gaining, -row["n_jobs"], row["group_id"])):
        found.setdefault(group["application"] or UNNAMED, []).append(group)
    return found


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """A sort key in which 9 comes before 10."""
    return [
        (not part.isdecimal(), int(part[:18]) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)
    ]


def page_name(application: str) -> str:
    """The file name of an application: its letters and digits, and a digest, as other signs may differ."""
    plain = re.sub(r"[^a-z0-9]+", "-", application.lower()).strip("-")[:40]
    digest = hashlib.sha256(application.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain or 'application'}-{digest}.html"


def _shown(groups: Rows, tables: Mapping[str, pa.Table], cost: CostSettings) -> list[dict[str, Any]]:
    labels = {group["group_id"]: group["label"] for group in groups[:SERIES_A_PAGE]}
    chosen = {name: table.filter(_is_in(table, list(labels))) for name, table in tables.items()}
    series = {one["series"]: one for one in series_as_dicts(chosen)}
    return [
        answered(series[group], series[group]["predictions"], cost) | {"series": printable(label, 300)}
        for group, label in labels.items()
        if group in series
    ]


def _weak(groups: Rows, observations: pa.Table) -> list[dict[str, Any]]:
    """Weak-scaling series of an application: its groups that differ only in problem size."""
    sized = {group["group_id"]: (group["label"], group["problem_size"]) for group in groups}
    named = {
        group: (label.replace(f"problem_size={size}", "").strip(), size)
        for group, (label, size) in sized.items() if size is not None
    }  # fmt: skip
    return weak_of(named, observations.filter(_is_in(observations, list(named))).to_pylist())


def _is_in(table: pa.Table, names: list[str]) -> pa.ChunkedArray:
    return pc.is_in(table.column("group_id").cast(pa.string()), pa.array(names, pa.string()))
