"""Blocks are read as documents write them, and a wrong output does not match."""

from pathlib import Path

import pytest

from tests.documents.console_blocks import commands_of, matches

TEXT = """# Title

```console
$ one --a
first line
$ two <<'END'
> text
> END
```

<!-- not run: needs Slurm -->
```console
$ three
```

```toml
$ no command
```
"""


def test_commands_have_lines_outputs_and_reasons(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(TEXT)
    one, two, three = commands_of(tmp_path / "page.md", tmp_path)
    assert (one.line, one.text, one.shown, one.why_not) == (4, "one --a", ("first line",), None)
    assert (two.line, two.text, two.shown) == (6, "two <<'END'\ntext\nEND", ())
    assert (three.text, three.why_not) == ("three", "needs Slurm")


def test_output_before_a_command_is_refused(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("```console\nno prompt\n```\n")
    with pytest.raises(ValueError, match="line 2"):
        commands_of(tmp_path / "page.md", tmp_path)


@pytest.mark.parametrize(
    ("shown", "output", "is_equal"),
    [
        (("a b",), " a   b\n\n", True),
        (("a b",), "a c\n", False),
        (("a",), "a\nb\n", False),
        (("a", "..."), "a\nb\nc\n", True),
        (("...", "c"), "a\nb\nc\n", True),
        (("...", "b"), "a\nb\nc\n", False),
        (("run ... of 3",), "run 0a1b of 3\n", True),
        (("run ... of 3",), "run 0a1b of 4\n", False),
        (("2.5 s",), "2x5 s\n", False),
        (("───",), "──────\n", True),
    ],
)
def test_outputs_are_compared(shown: tuple[str, ...], output: str, is_equal: bool) -> None:
    assert matches(shown, output) is is_equal
