"""Hooks of mkdocs: documents outside docs/ become pages of the site, and links to other files stay text.

A page that would load something from another machine is a warning, and so an error of `make docs`.
"""

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = (
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *[f"benchmarks/{path.name}" for path in (ROOT / "benchmarks").glob("*.md")],
)
SETTINGS_PAGE = "docs/reference/settings.md"
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+src=["']?https?:[^>]*>|<link[^>]+rel=["']?stylesheet[^>]+https?:[^>]*>"""
)
FENCE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """The files of docs/, and the documents outside it."""
    for name in OUTSIDE:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    every = (ROOT / "configs" / "all.toml").read_text(encoding="utf-8")
    text = f"# Settings\n\n`configs/all.toml` has every setting with its default.\n\n```toml\n{every}```\n"
    files.append(File.generated(config, SETTINGS_PAGE.removeprefix("docs/"), content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """The page's text with links as they are in the site."""
    place = page.file.src_uri
    folder = posixpath.dirname(place if place in OUTSIDE else f"docs/{place}")
    here = posixpath.dirname(place)

    def replaced(found: re.Match[str]) -> str:
        picture, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        path = SETTINGS_PAGE if path == "configs/all.toml" else path
        uri = path.removeprefix("docs/")
        if files.get_file_from_path(uri) is not None and (path in OUTSIDE or path.startswith("docs/")):
            return f"{picture}[{text}]({posixpath.relpath(uri, here or '.')}{anchor})"
        return text if text.startswith("`") else f"{text} (`{path}`)"

    parts = FENCE.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in parts)


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """The page as it is; a warning for each part that it would load from another machine."""
    for found in LOADED.findall(output):
        logging.getLogger("mkdocs.hooks").warning("%s loads %s", page.file.src_uri, found)
    return output
