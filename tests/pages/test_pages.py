"""Each page in chromium: no error, no request, no serious accessibility finding; readable on paper and on a phone."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

KINDS = ("site", "clean", "backtest", "replay", "series", "phases", "application")
DESKTOP, PHONE = (1280, 900), (390, 844)


def path_of(pages: Path, kind: str) -> Path:
    """The file of a kind of page."""
    return next(iter(sorted(pages.glob("heat-*.html")))) if kind == "application" else pages / f"{kind}.html"


@contextmanager
def opened(browser: Any, path: Path, size: tuple[int, int] = DESKTOP, **options: Any) -> Iterator[Any]:
    """The page in a window, with what it logged and asked for in `page.said`."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.append(request.url) if not request.url.startswith("file://") else None)
    page.said = said
    page.goto(path.as_uri())
    try:
        yield page
    finally:
        context.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_has_no_error_no_request_and_no_serious_finding(
    kind: str, scheme: str, pages: Path, browser: Any, axe: str
) -> None:
    with opened(browser, path_of(pages, kind), color_scheme=scheme) as page:
        assert page.said == []
        page.evaluate(axe)
        found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
        serious = [
            (one["id"], one["nodes"][0]["html"][:200], one["nodes"][0]["failureSummary"])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_axe_finds_what_is_wrong(browser: Any, axe: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text("<html><body><img src='data:,'><p style='color:#bbb;background:#fff'>pale</p></body></html>")
    with opened(browser, bad) as page:
        page.evaluate(axe)
        found = {one["id"] for one in page.evaluate("axe.run()")["violations"]}
    assert {"image-alt", "color-contrast", "html-has-lang"} <= found


@pytest.mark.parametrize("kind", KINDS)
def test_a_phone_scrolls_tables_and_plots_but_not_the_page(kind: str, pages: Path, browser: Any) -> None:
    with opened(browser, path_of(pages, kind), PHONE) as page:
        wide, window = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert wide <= window
        # Text is not smaller than a reader on a phone can read.
        assert page.evaluate("parseFloat(getComputedStyle(document.querySelector('td')).fontSize)") >= 12


@pytest.mark.parametrize("kind", KINDS)
def test_paper_shows_all_in_dark_ink(kind: str, pages: Path, browser: Any) -> None:
    with opened(browser, path_of(pages, kind), (700, 1000), color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        boxes = "Array.from(document.querySelectorAll('.scroll, .plot'))"
        assert page.evaluate(f"{boxes}.filter(box => box.scrollWidth > box.clientWidth + 1).length") == 0
        assert len(page.pdf(format="A4")) > 10_000


@pytest.mark.parametrize("kind", ["site"])
def test_the_table_of_applications_is_sorted_by_a_heading(kind: str, pages: Path, browser: Any) -> None:
    hours = "Array.from(document.querySelectorAll('#applications tbody tr')).map(r => Number(r.cells[1].dataset.v))"
    names = "Array.from(document.querySelectorAll('#applications tbody tr')).map(r => r.cells[0].textContent)"
    with opened(browser, path_of(pages, kind)) as page:
        fallen = page.evaluate(hours)
        assert len(fallen) > 5 and fallen == sorted(fallen, reverse=True)
        button = page.locator("#applications").get_by_role("button", name="processor-hours")
        button.click()
        assert page.evaluate(hours) == sorted(fallen, reverse=True)
        button.press("Enter")
        assert page.evaluate(hours) == sorted(fallen)
        page.locator("#applications").get_by_role("button", name="application").click()
        assert page.evaluate(names) == page.evaluate(f"{names}.sort((a, b) => a.localeCompare(b))")
    with opened(browser, path_of(pages, kind), java_script_enabled=False) as page:
        assert page.get_by_role("button").count() == 0
        assert page.locator("#applications tbody tr").count() == len(fallen)


def test_the_page_of_the_site_links_every_other_page(pages: Path, browser: Any) -> None:
    with opened(browser, pages / "site.html") as page:
        links = page.evaluate("Array.from(document.querySelectorAll('a')).map(a => a.getAttribute('href'))")
    expected = {path.name for path in pages.glob("*.html")} - {"site.html", "series.html", "phases.html"}
    assert {link for link in links if not link.startswith("#")} == expected


@pytest.mark.parametrize("kind", ["clean", "backtest", "replay", "series", "phases", "application"])
def test_pictures_have_axis_titles_alternative_texts_and_tooltips(kind: str, pages: Path, browser: Any) -> None:
    titles = {
        "clean": ("jobs submitted", "time (UTC)"), "backtest": ("requested processors",),
        "replay": ("change of the mean bounded slowdown",), "series": ("processors", "runtime, s"),
        "application": ("processors", "runtime, s"), "phases": ("time, s", "standard error"),
    }  # fmt: skip
    with opened(browser, path_of(pages, kind)) as page:
        drawn = page.evaluate("Array.from(document.querySelectorAll('svg text')).map(t => t.textContent)")
        assert set(titles[kind]) <= set(drawn)
        labels = page.evaluate("Array.from(document.querySelectorAll('svg')).map(s => s.getAttribute('aria-label'))")
        assert labels and all(label and len(label) > 20 for label in labels)
        if kind not in ("clean", "phases"):  # the small log has no burst to point at
            assert page.locator("svg g > title").count() > 0
