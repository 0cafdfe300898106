"""The picture of the queue's next hours: newest answers alone, in order, with hostile names escaped."""

from flows.pages.charts import draw
from flows.pages.site import MOST_JOBS, newest_answers, queue_picture


def answer(job_id: str, hours: float, **changes: object) -> dict[str, object]:
    starts = {f"start_s_q{q}": 7200 + 3600 * hours * q / 50 for q in (10, 50, 80, 95)}
    return {"job_id": job_id, "queue": "<b>", "made_s": 7200, "is_newest": True, **starts} | changes


def test_newest_answers_within_a_day_are_in_order_of_the_median() -> None:
    others = [answer("4", 1, is_newest=False), answer("5", 1, made_s=60)]
    rows = [answer("3", 5), answer("1", 2), answer("2", 150), *others]
    found = newest_answers(rows)
    assert [row["job_id"] for row in found] == ["1", "3"]
    assert found[0]["q50"] == 2 and found[0]["q95"] > found[0]["q80"] > found[0]["q50"] > found[0]["q10"]


def test_the_picture_shows_each_job_and_no_markup_of_the_log() -> None:
    svg = str(draw(queue_picture(newest_answers([answer("<script>", 2), *(answer(str(n), 3) for n in range(60))]))))
    assert f"Expected starts of {MOST_JOBS} waiting jobs" in svg
    assert "<script" not in svg and "&lt;script&gt;" in svg
    assert not queue_picture([]).panels
