"""The judgement of an hour's looks: ages by minute, the growth of serve, the table. It needs no Slurm."""

from tests.slurm.freshness import Look, growth_mib, table, worst_by_minute


def look(at_s: float, age_s: float | None, serve_mib: float = 200.0, is_up: bool = True, run_id: str = "a") -> Look:
    return Look(at_s, age_s, age_s, run_id, 10, serve_mib, 100.0, is_up)


def test_the_oldest_tables_of_each_minute_count_outside_the_reboot() -> None:
    looks = [look(0, 5.0), look(59, 64.0), look(60, 3.0), look(130, 900.0, is_up=False), look(190, 7.0)]
    assert worst_by_minute(looks) == {0: 64.0, 1: 3.0, 3: 7.0}


def test_growth_is_that_of_each_process_after_it_has_settled() -> None:
    early = [look(10.0 * n, 1.0, serve_mib=100.0 if n < 3 else 200.0 + n) for n in range(12)]
    later = [look(200.0 + 10 * n, 1.0, serve_mib=150.0) for n in range(12)]
    looks = [*early, look(150.0, 1.0, serve_mib=0.0), *later]
    assert growth_mib(looks, settle_s=30.0) == [6.0, 0.0]


def test_the_table_has_a_line_for_five_minutes() -> None:
    looks = [look(0, 5.0), look(200, 15.0, run_id="b"), look(310, 100.0, is_up=False), look(400, None)]
    lines = table(looks, [(3.0, "completed"), (20.0, "completed"), (310.0, "crashed")]).splitlines()
    assert lines[2:] == [
        "| 0-5 | 1 | 10 | 15 | 15 | 2 completed | 200 | 100 |",
        "| 5-10 (down for a part) | 1 | 10 | 100 | 100 | 1 crashed | 200 | 100 |",
    ]
