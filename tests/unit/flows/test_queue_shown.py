"""Names of a queue's jobs are shown as text, on a page and on a terminal."""

from flows.pages.blocks import columns
from flows.pages.charts import draw
from flows.pages.site import queue_picture

HOSTILE = "<script>a\x1b[31m\u202e"


def test_a_hostile_name_in_a_queue_is_text() -> None:
    hours = {"q10": 0.1, "q50": 1.0, "q80": 2.0, "q95": 4.0}
    drawn = str(draw(queue_picture([{"job_id": HOSTILE, "queue": HOSTILE, **hours}])))
    assert "<script>" not in drawn and "\x1b" not in drawn and "&lt;script&gt;" in drawn
    row = {"id": HOSTILE, "job_owner": HOSTILE, "queue_name": HOSTILE, "procs": 1, "wallclock_limit": None}
    assert not any("\x1b" in column.cell(row) or "\u202e" in column.cell(row) for column in columns("waiting")[:5])
