"""PREDICTIONS: what the State answers for every group at every count, with the laws as a hypothesis beside it."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtri

from pipeline.arrays import Array, Bools, Floats, Value, category_codes, floats
from pipeline.axes import MOST_EFFICIENCY, MOST_OK_SPAN, Axis, axis_of
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.estimate.estimate_rules import EstimateRules
from pipeline.estimate.history import READ, History, history
from pipeline.estimate.keys import numbers
from pipeline.estimate.law_curves import (
    CURVE_ERROR,
    ENOUGH,
    ESTIMATE_ERROR,
    FARTHEST,
    IS_NEW,
    N_ENDED,
    LawCurves,
    speaks,
)
from pipeline.estimate.learnt_parts import group_digests, recoded
from pipeline.estimate.nightly.rows import NEWEST, group_key
from pipeline.estimate.questions import completed, questions_of
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import Record, State
from pipeline.estimate.state_table import arrays_in, arrays_table, state_in
from pipeline.estimate.submits import jobs_of
from pipeline.estimate.walltime import Answers, answers
from pipeline.large_tables import LargeTable, newest_jobs
from pipeline.report import Report, Tally
from pipeline.tables import PREDICTIONS

CURVE_SIZES = 3
"""Sizes of a group whose law is a hypothesis."""

TYPICAL = ("requested_s", "requested_mem_kib", "queue")
"""What a question has from the group's newest jobs on the nearest count, where NEWEST of them agree."""

HOLDS_DAYS = 7.0
"""Longest validity of an ok row, days: a record is weak evidence for runs weeks later."""

DAY_S = 86_400.0


def publish_predictions(
    state_table: pa.Table, laws: pa.Table, groups: pa.Table, jobs: LargeTable, run_id: str
) -> tuple[pa.Table, pa.Table, Report]:
    """STATE with the laws of its groups, and PREDICTIONS, a row per group and count of `laws`.

    A question has the group's values of the template, the count on the group's axis and what goes with it (processors
    of GPUs or nodes), and what TYPICAL names, where the group's newest jobs on the nearest count agree; it is submitted
    at the State's time.

    Parameters
    ----------
    state_table : pa.Table
        STATE.
    laws : pa.Table
        PREDICTIONS by law alone; medians in s.
    groups : pa.Table
        GROUPS.
    jobs : pa.Table or StoredTable
        Grouped JOBS.
    run_id : str
        Id of the run, written to every row.

    Returns
    -------
    state : pa.Table
        STATE that knows the laws.
    table : pa.Table
        PREDICTIONS; runtimes in s.
    report : Report
        Number of predictions; how many are ok.
    """
    arrays = arrays_in(state_table)
    state, settings = state_in(arrays, "the state")
    newest, _ = newest_jobs(jobs, (*READ, "group_id", "nodes"), settings.learn_jobs)
    past = history(newest, state.site["timezone"])
    group_id = np.array(newest.column("group_id").to_pylist(), object)[past.row]
    asked, alone = row_questions(newest.take(pa.array(past.row)), group_id, past, laws, groups)
    state = replace(state, laws=law_curves(state, past, group_id, laws, asked, groups))
    first: dict[str, int] = {}
    place = [first.setdefault(name, row) for row, name in enumerate(laws.column("group_id").to_pylist())]
    found, on_one_s = answers_at(state, [*asked, *alone], settings, len(asked))
    order = dict(zip(first.values(), on_one_s.tolist(), strict=True))
    table = _table(
        laws,
        asked,
        found,
        np.array([order[row] for row in place]),
        state.as_of_s + HOLDS_DAYS * DAY_S,
        run_id,
    )
    more = {f"laws.{name}": values for name, values in state.laws._asdict().items()}
    return arrays_table(arrays | more), table, _report(table, found, state.record)


def law_curves(
    state: State, past: History, group_id: Array, laws: pa.Table, asked: Sequence[Mapping[str, Value]], groups: pa.Table
) -> LawCurves:
    """The curve of each of the State's groups: that of the similarity group of its newest job."""
    n_sizes = dict(zip(groups.column("group_id").to_pylist(), groups.column("n_sizes").to_pylist(), strict=True))
    owner = np.array(laws.column("group_id").to_pylist(), object)
    ids, first, count = np.unique(owner.astype(str), return_index=True, return_counts=True)
    order = np.argsort(first)
    ids, count = ids[order], count[order]
    borrowed = set(laws.filter(pc.equal(laws.column("method").cast(pa.string()), "across"))["group_id"].to_pylist())
    code = {n: place for place, n in enumerate(ids) if n in borrowed or n_sizes.get(n, 0) >= CURVE_SIZES}
    known = np.flatnonzero(np.array([name in code for name in group_id], np.bool_))
    own = numbers(state.groups, group_digests(jobs_of(recoded(past, state.names))))[known]
    of_group = np.full(len(state.groups) + 1, -1, np.int64)
    is_held = (own >= 0) & (own < len(state.groups))
    # In order of submit, so that the newest job decides.
    for place, number in zip(known[is_held], own[is_held], strict=True):
        of_group[number] = code[group_id[place]]
    offsets = np.append(0, np.cumsum(count)).astype(np.int64)
    template = {name for name in TEMPLATE_COLUMNS if groups.column(name).null_count < groups.num_rows}
    key = np.array([group_key(template)])
    log_size = jobs_of(questions_of(asked, np.zeros(len(asked)), "UTC")).log_size
    # The processors of a GPU may be unknown: the curve is then over GPUs alone.
    log_size = np.where(np.isnan(log_size), np.log(floats(laws, "procs")), log_size)
    low, log_s, high = (np.log(floats(laws, f"runtime_s{end}")) for end in ("_lo80", "", "_hi80"))
    return LawCurves(of_group, offsets, log_size, log_s, np.nan_to_num(log_s - low), np.nan_to_num(high - log_s), key)


def row_questions(
    jobs: pa.Table, group_id: Array, past: History, laws: pa.Table, groups: pa.Table
) -> tuple[list[dict[str, Value]], list[dict[str, Value]]]:
    """Per row of `laws` the job that is asked, as values of JOBS columns; and per group the same on a count of 1.

    Unknown values are left out. On 1 a group has the values of its first row, so that its runtime times its speedup is
    one number.
    """
    columns = {name: groups.column(name).to_pylist() for name in (*TEMPLATE_COLUMNS, "gpu_type")}
    template = {
        name: {column: values[row] for column, values in columns.items() if values[row] is not None}
        for row, name in enumerate(groups.column("group_id").to_pylist())
    }
    axes = {name: axis_of(axis) for name, axis in zip(*(laws.column(one).to_pylist() for one in _AXES), strict=True)}
    counts = {Axis.PROCS: past.procs, Axis.GPUS: past.gpus, Axis.NODES: floats(jobs, "nodes")}
    newest: dict[str, dict[float, deque[int]]] = {}
    for place, name in enumerate(group_id.tolist()):
        if name in axes and (count := counts[axes[name]][place]) > 0:
            newest.setdefault(name, {}).setdefault(float(count), deque(maxlen=NEWEST)).append(place)
    values = {name: jobs.column(name).to_pylist() for name in TYPICAL}
    typical = {
        name: {size: _agreed(values, places) | _counts(past, places[-1]) for size, places in sizes.items()}
        for name, sizes in newest.items()
    }
    asked, alone = list[dict[str, Value]](), dict[str, dict[str, Value]]()
    for name, size in zip(laws.column("group_id").to_pylist(), laws.column("procs").to_pylist(), strict=True):
        sizes = typical.get(name, {})
        asked.append(_on(axes[name], sizes, size) | template[name])
        if name not in alone:
            alone[name] = asked[-1] | _held(axes[name], sizes, 1)
    return asked, list(alone.values())


_AXES = ("group_id", "axis")


def _agreed(values: Mapping[str, Sequence[Value | None]], places: Iterable[int]) -> dict[str, Value]:
    """The values, by column, that the jobs at these places all have."""
    found = {name: {own[place] for place in places} for name, own in values.items()}
    return {name: own.pop() for name, own in found.items() if len(own) == 1 and None not in own}


def _counts(past: History, place: int) -> dict[str, Value]:
    """The processors of a job, and its GPUs where it holds any."""
    found: dict[str, Value] = {"procs": float(past.procs[place])}
    return found | {"gpus": float(past.gpus[place])} if past.gpus[place] > 0 else found


def _on(axis: Axis, sizes: Mapping[float, dict[str, Any]], count: int) -> dict[str, Value]:
    """The values of a job on a count: those of the nearest count, and what it holds."""
    return sizes.get(_nearest(sizes, count), {}) | _held(axis, sizes, count)


def _nearest(sizes: Mapping[float, dict[str, Any]], count: int) -> float:
    """The size nearest in ratio, of two the smaller; 0 where there is none."""
    return min(sorted(sizes), key=lambda size: abs(np.log(size / count)), default=0.0)


def _held(axis: Axis, sizes: Mapping[float, dict[str, Any]], count: int) -> dict[str, Value]:
    """The processors and GPUs of a count; processors follow GPUs and nodes, unless all counts have as many."""
    if axis is Axis.PROCS:
        return {"procs": count}
    found: dict[str, Value] = {"gpus": count} if axis is Axis.GPUS else {}
    if not sizes:
        return found
    near, procs = _nearest(sizes, count), {one["procs"] for one in sizes.values()}
    share = 1.0 if len(procs) == 1 < len(sizes) else count / near
    return found | {"procs": max(round(sizes[near]["procs"] * share), 1)}


def answers_at(
    state: State, asked: Sequence[Mapping[str, Value]], settings: EstimateRules, n: int
) -> tuple[Answers, Floats]:
    """The answers to the first `n` jobs at the State's time, and the medians of the others, s."""
    submit_s = np.full(len(asked), state.as_of_s)
    questions = completed(state, questions_of(asked, submit_s, state.site["timezone"]))
    found = answers(state, questions, settings, np.ones(len(asked), np.bool_))
    return Answers(*(column[:n] for column in found)), found.quantiles_s[n:, QUANTILES.index(0.5)]


def interval_ends(quantiles_s: Floats) -> dict[str, Floats]:
    """Ends, s, of the central 80% and 95% intervals, by column, from quantiles at CALIBRATED.

    The upper end of 95% lies between the quantiles of 95 and 99% as on a normal scale of logs.
    """
    lo80_s, _, _, hi80_s, q95_s, q99_s, lo95_s = quantiles_s.T
    z95, z975, z99 = ndtri([0.95, 0.975, 0.99])
    hi95_s = q95_s * (q99_s / q95_s) ** ((z975 - z95) / (z99 - z95))
    # Logs round: an end of 95% would lie inside that of 80% where both are the median.
    return {
        "runtime_s_lo80": lo80_s, "runtime_s_hi80": hi80_s,
        "runtime_s_lo95": np.minimum(lo95_s, lo80_s), "runtime_s_hi95": np.maximum(hi95_s, hi80_s),
    }  # fmt: skip


def _table(
    laws: pa.Table, asked: Sequence[Mapping[str, Value]], found: Answers, alone_s: Floats, until_s: float, run_id: str
) -> pa.Table:
    ends, runtime_s = interval_ends(found.quantiles_s), found.quantiles_s[:, QUANTILES.index(0.5)]
    codes, sentences = _reliability(laws, found.law, ends["runtime_s_hi80"] / ends["runtime_s_lo80"])
    speedup = agreed_speedup(laws, alone_s / runtime_s)
    return PREDICTIONS.build(
        group_id=laws.column("group_id"), axis=laws.column("axis"), procs=laws.column("procs"),
        **{name: [one.get(name) for one in asked] for name in TYPICAL}, runtime_s=runtime_s, **ends,
        speedup=speedup, efficiency=speedup / floats(laws, "procs"), is_extrapolated=laws.column("is_extrapolated"),
        reliability=codes, advice=sentences, curve_error=found.law[:, CURVE_ERROR],
        estimate_error=found.law[:, ESTIMATE_ERROR],
        holds_until_s=np.where(np.array(codes) == "ok", np.floor(until_s), np.nan),
        method=np.where(speaks(found.law), "curve", "estimate").tolist(), run_id=[run_id] * laws.num_rows,
    )  # fmt: skip


def agreed_speedup(laws: pa.Table, speedup: Floats) -> Floats:
    """The speed-ups, NaN in groups where an efficiency exceeds MOST_EFFICIENCY: T(1) does not agree."""
    group = category_codes(laws, "group_id")[0]
    efficiency = speedup / floats(laws, "procs")
    return np.where(np.isin(group, group[efficiency > MOST_EFFICIENCY]), np.nan, speedup)


def _reliability(laws: pa.Table, law: Floats, span: Floats) -> tuple[list[str], list[str | None]]:
    """Per row the codes of the law and of the record, or ok; and the advice of the law, or a sentence on the record."""
    has_record = law[:, N_ENDED] >= ENOUGH
    error = np.where(speaks(law), law[:, CURVE_ERROR], law[:, ESTIMATE_ERROR])
    doubts: dict[str, Bools] = {
        "no_record": ~has_record, "unseen": has_record & (law[:, IS_NEW] == 1) & ~speaks(law),
        "missed": error > FARTHEST, "wide": span > MOST_OK_SPAN,
    }  # fmt: skip
    words, sentences = [], []
    for row, (codes, advice) in enumerate(
        zip(laws.column("reliability").to_pylist(), laws.column("advice").to_pylist(), strict=True)
    ):
        own = [name for name, holds in doubts.items() if holds[row]]
        words.append("+".join([*([] if codes == "ok" else [codes]), *own]) or "ok")
        says_law = codes != "ok" or not own
        sentences.append(advice if says_law else _sentence(own[0], law[row, N_ENDED], error[row], span[row]))
    return words, sentences


def _sentence(code: str, n_ended: float, error: float, span: float) -> str:
    return {
        "no_record": f"Of {ENOUGH} ended jobs of the group that a record needs, {np.nan_to_num(n_ended):.0f} are "
                     "remembered.",
        "unseen": "No run on this count is remembered, and the group's law was not close enough to answer.",
        "missed": f"What answers was off by {error:.2f} (log) lately on the group's jobs.",
        "wide": f"The 80% interval spans {span:.1f} times.",
    }[code]  # fmt: skip


def _report(table: pa.Table, found: Answers, record: Record) -> Report:
    whole = Tally(table.num_rows)
    n_ok = pc.sum(pc.equal(table.column("reliability").cast(pa.string()), "ok")).as_py() or 0
    facts = {"predictions_by_curve": int(speaks(found.law).sum()), "predictions_ok": n_ok, **later_coverage(record)}
    return Report("predict", "prediction", whole, whole, facts=facts, notes=note_if_none(table)).check()


def later_coverage(record: Record) -> dict[str, Any]:
    """The latest ended jobs, and the shares of them inside the 80% and 95% intervals as of submit; None without one."""
    ends, n = interval_ends(record.quantiles_s), len(record.runtime_s)
    inside = {
        share: (ends[f"runtime_s_lo{share}"] <= record.runtime_s) & (record.runtime_s <= ends[f"runtime_s_hi{share}"])
        for share in ("80", "95")
    }
    return {"past_jobs": n} | {f"in_{share}_later": float(held.mean()) if n else None for share, held in inside.items()}


_MEANING = {
    "no_record": "too few ended jobs of the group",
    "unseen": "no run on the count, and no law that is close",
    "missed": "recent jobs lay far from what was answered",
    "wide": "the interval is wide",
    "one_size": "the group ran on one count only",
    "wide_group": "the group mixes different work",
    "few_sizes": "too few counts tell the laws apart",
    "high_error": "no law comes close to what ran",
}


def note_if_none(table: pa.Table) -> tuple[str, ...]:
    """One sentence where no prediction is ok: the two most common reasons, and what would change it."""
    counted = Counter(code for words in table.column("reliability").to_pylist() for code in words.split("+"))
    if not counted or counted["ok"]:
        return ()
    common = sorted(counted, key=lambda code: (-counted[code], code))[:2]
    reasons = " and ".join(f"{_MEANING.get(code, code)} ({code}, {counted[code]:,} rows)" for code in common)
    return (
        f"No prediction is ok: {reasons}; a column in group.template that tells the work apart, or a rule in "
        "ingest.problem_size_rules, would change that.",
    )
