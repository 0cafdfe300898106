"""Links between documents lead to files and headings that exist, and every page of decisions is listed."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]+)\)")


def documents() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=False, capture_output=True, text=True).stdout
    return [ROOT / name for name in listed.split()] or sorted((ROOT / "docs").rglob("*.md"))


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as hosts of repositories make them."""
    headings = re.findall(r"^#+ +(.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        name, _, anchor = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), f"{document.name} links to {target}"
        assert not anchor or path.suffix != ".md" or anchor in anchors(path), f"{document.name} links to {target}"


def test_every_page_of_decisions_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = set(LINK.findall((folder / "README.md").read_text(encoding="utf-8")))
    assert {page.name for page in folder.glob("*.md")} - {"README.md"} <= listed


def test_tests_that_documents_name_exist() -> None:
    code = [(path.name, path.read_text(encoding="utf-8")) for path in (ROOT / "tests").rglob("test_*.py")]
    for document in documents():
        for file, name in re.findall(r"`(?:[\w/]*/)?(test_\w+\.py)(?:::(\w+))?", document.read_text(encoding="utf-8")):
            assert file in dict(code), (document.name, file)
            assert not name or any(f"def {name}(" in text for _, text in code), (document.name, name)
