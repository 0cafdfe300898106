"""The replays as one page of HTML without network access; every text from a log is escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from flows.pages.formats import signed_percent
from flows.pages.html.drawing import COLOURS, curve, named_ticks, panel, per_cent, render_template, rule, styled, to_svg
from flows.pages.terminal.view_replay import averages, cases_with_quartiles
from pipeline.schedule.verdict import ReplayResult, best_case, case_of, medians, sentences

USERS_LISTED = 200


def replay_page(found: Sequence[ReplayResult]) -> str:
    """The page of some logs' replays; the same results give the same bytes."""
    logs = [_log(result) for result in found]
    return render_template("replay.html", logs=logs, averages=averages(found) if len(found) > 1 else [])


def _log(result: ReplayResult) -> dict[str, Any]:
    rows, cases = result.table.to_pylist(), cases_with_quartiles(result)
    case = best_case(rows)
    own = [row for row in medians(rows) if case_of(row) == case]
    users = sorted((row for row in own if row["part"] == "user"), key=lambda row: -row["wait_change_s"] * row["n_jobs"])
    return {
        "name": result.log,
        "sentences": sentences(result),
        "cases": cases,
        "case": ", ".join(case) if case else "",
        "sizes": [row for row in own if row["part"] == "size"],
        "users": users[:USERS_LISTED],
        "n_users": len(users),
        "left_out": result.counts,
        "plot": changes_plot(cases),
    }


def changes_plot(cases: Sequence[Mapping[str, Any]]) -> Markup:
    """SVG: per case a line between the quartiles of slowdown_change, and a dot at the median."""
    names = [", ".join(case_of(row)) for row in cases]
    with styled():
        figure, axes = panel(0.72 + 0.24 * len(cases), left=0.2)
        for place, row in enumerate(cases):
            colour = "best" if row["estimates"] == "walltime" else "muted"
            if row["q25"] is not None and row["q75"] is not None:
                axes.plot([row["q25"], row["q75"]], [place, place], color=COLOURS[colour], linewidth=2)
            curve(axes, [row["slowdown_change"]], [place], colour=colour, markersize=5, gid=f"case-{place}")
        rule(axes.axvline, 0)
        per_cent(axes.xaxis)
        named_ticks(axes.yaxis, dict(enumerate(names)))
        axes.invert_yaxis()
        axes.set_xlabel("change of the mean bounded slowdown")
        changes = [signed_percent(row["slowdown_change"]) or "unknown" for row in cases]
        words = {f"case-{at}": f"{name}: {one}" for at, (name, one) in enumerate(zip(names, changes, strict=True))}
        return to_svg(figure, f"Change of the mean bounded slowdown. {'; '.join(words.values())}.", words)
