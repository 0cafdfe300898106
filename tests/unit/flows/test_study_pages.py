"""The backtest's page: hostile names are spelt out, the same table gives the same bytes, little data is no failure."""

from flows.pages.studies import backtest_blocks, backtest_page
from flows.pages.terminal import print_blocks
from flows.services.studies import BacktestResult
from pipeline.evaluate import backtest
from pipeline.settings import RunSettings
from tests.unit.evaluate.estimators import last_two, log, nobody, request

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e]]>"


def tried(name: str, n_jobs: int = 300) -> BacktestResult:
    methods = {"request": request, "last_two": last_two, "nobody": nobody}
    table, report = backtest(log(n_jobs), RunSettings(), methods, name)
    return BacktestResult(name, table, report, {"request": 0.1}, [])


def test_a_hostile_name_is_text() -> None:
    page = backtest_page([tried(HOSTILE)])
    assert "<script" not in page and "\x1b" not in page and "\u202e" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e" in page


def test_the_page_stands_alone_and_says_the_figures() -> None:
    found = tried("here")
    page = backtest_page([found])
    assert page == backtest_page([found])
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    assert page.count("<svg") == 4 and "33.3% of the jobs are used for training" in page
    assert f"{found.ranked[0]['mae_s']:,.0f}" in page


def test_two_logs_stand_one_below_the_other() -> None:
    page = backtest_page([tried(name) for name in ("east", "west")])
    assert page.index("<h2>east</h2>") < page.index("<h2>west</h2>")


def test_a_log_of_two_jobs_has_a_page_too() -> None:
    assert "</html>" in backtest_page([tried("tiny", 2)])


def test_what_is_printed_of_a_hostile_log_steers_no_terminal(capsys: object) -> None:
    print_blocks(backtest_blocks([tried(HOSTILE)], "size"))
    shown = capsys.readouterr().out  # type: ignore[attr-defined]
    assert "\x1b[31m" not in shown and "\\x1b[31m" in shown and "last_two *" in shown


def test_a_legend_names_only_methods_that_its_chart_draws() -> None:
    figures = backtest_page([tried("here")]).split("<figure>")[1:]
    # last_two gives a median and no other quantile, so it has errors and no coverage.
    assert ["</i>last_two</li>" in figure.replace("\n", "") for figure in figures] == [True, True, False, False]
