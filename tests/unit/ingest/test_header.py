"""What the comments of an SWF log say."""

from pipeline.ingest.formats.swf import Header


def header(*lines: str) -> Header:
    said = Header()
    for number, line in enumerate(lines, 1):
        said.read(number, line.encode())
    return said


def test_keys_repeat_and_lines_continue() -> None:
    said = header(
        "; Information: http://a/",
        ";              http://b/",
        "; Information: c",
        "; Note: cleaned",
        ";       user=2 (3 jobs removed)",
        ";",
        ";  stray",
        "  ;UnixStartTime: 12",
    )
    assert said.values == {
        "Information": ["http://a/ http://b/", "c"],
        "Note": ["cleaned user=2 (3 jobs removed)"],
        "UnixStartTime": ["12"],
    }
    assert said.start_s == 12


def test_a_continuation_follows_directly() -> None:
    said = Header()
    said.read(1, b"; Note: a")
    said.read(3, b";   b")
    assert said.values["Note"] == ["a"]


def test_values_are_bounded_and_shown_without_control_characters() -> None:
    said = header("; Computer: \x1b[31m" + "x" * 10_000)
    assert len(said.values["Computer"][0]) <= 1_000
    assert said.shown()["computer"].startswith("\\x1b[31mxxx")
