"""What `walltime query` does: jobs and the published State in, runtime quantiles and their basis out.

The published prediction of a group (`Curve`) answers a kind of runs, and gives the ratio to a count that never ran.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flows.services.published.published_folder import live_state, read_columns, rows_where, unreliability_note
from flows.services.quantities import LATER, instant, instant_s
from flows.services.query.jobs import as_ingested
from pipeline.arrays import DAY_S, Bools, Floats, Value, floats, integers, matching_places
from pipeline.axes import Axis
from pipeline.columns import TEMPLATE_COLUMNS
from pipeline.errors import InputError
from pipeline.estimate.answer import LIMIT
from pipeline.estimate.estimates import PROMISE, price_now, recommended_kib
from pipeline.estimate.history import WHO, History
from pipeline.estimate.questions import Basis, basis_of, completed, first_text, questions_of
from pipeline.estimate.score import N_QUANTILES, QUANTILES, score_of
from pipeline.estimate.state import State, estimate, loaded_state
from pipeline.limits.plan import limit_answer
from pipeline.publish import Manifest, reading
from pipeline.tables import GROUPS, INPUT_MODELS, MEMORY_STATE, PREDICTIONS, STATE

METHOD = "walltime"
QUEUES = ("queue", "partition")
INPUTS, PREDICTED = "inputs", "predictions"
"""What says that a model over inputs answered, or the published prediction of a kind of runs."""


@dataclass(frozen=True, slots=True)
class LoadedState:
    """The State of a published folder, with its manifest and path."""

    manifest: Manifest
    state: State
    where: str


def load_state(published: Path) -> LoadedState:
    """Load the State of a published folder, or its live one; InputError where there is none, or it knows no job."""
    with reading(published) as manifest:
        return answering_state(manifest)


def answering_state(manifest: Manifest, as_of_s: int | None = None) -> LoadedState:
    """The State that answers for a version: its live one, unless the version was chosen by a date."""
    return state_of(manifest, live_state(manifest) if as_of_s is None else None)


def state_of(manifest: Manifest, live: Path | None = None) -> LoadedState:
    """Load the State of a version, or the given live one; InputError where there is none, or it knows no job."""
    path = live or manifest.path(STATE.name)
    state = loaded_state(read_columns(path, STATE), str(path))
    if not len(state.record.runtime_s):
        do = "run over a log with jobs that ended"
        raise InputError(str(path), "a state that has learnt from no job", "one that has learnt from a job", do)
    return LoadedState(manifest, state, str(path))


def answer(
    published: Path, job: Mapping[str, Value], key_file: Path | None = None, as_of_s: int | None = None
) -> dict[str, Any]:
    """The answer to one job, given as values of JOBS columns, in plain values; `seconds` is the time it took.

    The value `at` is the submit time, by default the time of the State, or LATER. `as_of_s` chooses an earlier version,
    as `reading` does. InputError where tables are missing or empty.
    """
    began = time.perf_counter()
    with reading(published, as_of_s) as manifest:
        loaded = answering_state(manifest, as_of_s)
        (found,) = answers(loaded, [job], key_file)
        limit = {"limit": limit_answer(manifest.settings.get("export", {}), found)}
        notes = {"notes": [sentence for sentence in (unreliability_note(manifest),) if sentence]}
    return found | limit | facts_of(loaded) | notes | {"seconds": time.perf_counter() - began}


def answers(
    loaded: LoadedState, jobs: Sequence[Mapping[str, Value]], key_file: Path | None = None
) -> list[dict[str, Any]]:
    """Per job its values as ingest writes them, runtime quantiles (s), the past jobs they rest on, and its memory."""
    ingested = as_ingested(loaded.state, loaded.manifest.settings, key_file)
    known = [ingested(job) for job in jobs]
    submit_s = np.array([_submit_s(loaded, job.get("at")) for job in jobs])
    per_node = loaded.manifest.settings.get("site", {}).get("procs_per_node")
    questions = questions_of(known, submit_s, loaded.state.site["timezone"], per_node)
    is_open = np.isnan(questions.procs)
    questions = completed(loaded.state, questions)
    basis = basis_of(loaded.state, questions)
    kinds = [None if code < 0 else questions.names["gpu_type"][code] for code in questions.codes["gpu_type"]]
    columns = (submit_s, questions.procs, np.nan_to_num(questions.gpus), is_open, *basis)
    found = _runtimes(loaded, jobs, known, questions, basis.n_kind.tolist(), kinds)
    # `known` has a queue as a partition, too, where the log has partitions.
    named = ({**job, "application": own.get("application")} for job, own in zip(jobs, known, strict=True))
    unknown = [unknown_names(loaded.state, job) for job in named]
    memory = memory_answers(loaded.manifest, known, questions)
    rows = zip(known, found, unknown, kinds, memory, *(column.tolist() for column in columns), strict=True)
    return [_plain(job, own, loaded.state.as_of_s, *values) for job, own, *values in rows]


def _runtimes(
    loaded: LoadedState, jobs: Sequence[Mapping[str, Value]], known: Sequence[Mapping[str, Value]],
    questions: History, n_kind: Sequence[int], kinds: Sequence[str | None],
) -> list[dict[str, Any]]:  # fmt: skip
    """Per job its quantiles, s, and what they rest on: a model over inputs, the prediction of a kind, the estimator.

    Where a kind of jobs never ran on a count that its group's curve has, the estimator answers for the nearest count
    that ran, and the curve gives the ratio.
    """
    inputs, curve_of = model_answers(loaded.manifest, jobs, questions), curves_of(loaded.manifest)
    curves = [curve_of(job, card) for job, card in zip(known, kinds, strict=True)]
    counts = [
        float((questions.gpus if curve and curve.is_of_gpus else questions.procs)[place])
        for place, curve in enumerate(curves)
    ]
    procs, gpus, ran = questions.procs.copy(), questions.gpus.copy(), dict[int, float]()
    for place, curve in enumerate(curves):
        if curve is None or not curve.names_program or n_kind[place]:
            continue
        nearest = curve.nearest(counts[place], that_ran=True)
        if nearest is not None and curve.counts[nearest] != counts[place]:
            ran[place] = curve.counts[nearest]
            procs[place] = max(round(procs[place] * ran[place] / counts[place]), 1)
            gpus[place] = ran[place] if curve.is_of_gpus else gpus[place]
    quantiles_s = estimate(loaded.state, replace(questions, procs=procs, gpus=gpus))[:, :N_QUANTILES]
    has_requests = float(np.mean(loaded.state.jobs.values[:, LIMIT] > 0)) > 0.5
    found = []
    for place, (job, curve) in enumerate(zip(known, curves, strict=True)):
        about: dict[str, Any] = {"answered_by": METHOD, "group": None, "scaled_from": None, "advice": None}
        own = quantiles_s[place]
        if curve and place in ran:
            own = scaled(own, curve.ratio(counts[place], ran[place]), float(questions.requested_s[place]))
            about |= {"group": curve.label, "scaled_from": int(ran[place])}
        predicted = _of_kind(job, curve, counts[place], has_requests=has_requests)
        if predicted:
            own, facts = predicted
            about |= facts
        if (model := inputs[place]) is not None:
            own, about["answered_by"] = np.array(model), INPUTS
        by_share = {f"runtime_s_q{round(100 * share)}": s for share, s in zip(QUANTILES, own.tolist(), strict=True)}
        found.append(about | {"runtime_s": by_share["runtime_s_q50"]} | by_share)
    return found


def _of_kind(
    job: Mapping[str, Value], curve: "Curve | None", count: float, *, has_requests: bool
) -> tuple[Floats, dict[str, Any]] | None:
    """The prediction of a kind of runs, which has a program and no request; None: no kind.

    Where most of the log's jobs have none, a job of a user is the estimator's.
    """
    if curve is None or not curve.is_kind or job.get("requested_s") or (first_text(job, WHO) and not has_requests):
        return None
    place = curve.nearest(count)
    assert place is not None  # nosec B101 # for the type checker
    quantiles_s = curve.quantiles_s[place] * curve.ratio(count, float(curve.counts[place]))
    if not np.isfinite(quantiles_s).all():
        return None
    facts = {"answered_by": PREDICTED, "group": curve.label, "advice": curve.advice[place], "scaled_from": None}
    return quantiles_s, facts


def unknown_names(state: State, job: Mapping[str, Value]) -> list[str]:
    """The columns and values of a job's application, queue, partition and QOS that no job of the log has."""
    # A log may have one of queue and partition, which mean the same.
    names_of = {"application": ("what",), "queue": QUEUES, "partition": QUEUES, "qos": ("qos",)}
    return [
        f"{column} {job[column]}"
        for column, names in names_of.items()
        if job.get(column) is not None and not any(job[column] in state.names.texts[name] for name in names)
    ]


def _plain(
    job: dict[str, Value], runtimes: dict[str, Any], as_of_s: float, unknown: list[str], gpu_type: str | None,
    memory: dict[str, Any], submit_s: float, procs: float, gpus: float, is_usual: bool, *basis: int,
) -> dict[str, Any]:  # fmt: skip
    return {
        "job": job, **runtimes, "submit_s": submit_s, "age_s": max(submit_s - as_of_s, 0.0), "procs": int(procs),
        "gpus": int(gpus), "gpu_type": gpu_type, "is_usual_procs": is_usual, "unknown_names": unknown,
        **dict(zip(Basis._fields, basis, strict=True)), **memory,
    }  # fmt: skip


def facts_of(loaded: LoadedState) -> dict[str, Any]:
    """Facts common to all answers: the method, its errors on this log, and the time up to which the log is known."""
    figures = score_of(loaded.state.record.runtime_s, loaded.state.record.quantiles_s)
    coverage = {f"held_q{round(100 * share)}": figures[f"coverage_q{100 * share:.0f}"] for share in QUANTILES}
    return {
        "method": METHOD, "mae_over_mean": figures["mae_over_mean"], "n_scored": int(figures["n_scored"]), **coverage,
        "as_of_s": int(loaded.state.as_of_s), "run_id": loaded.manifest.run_id, "site": loaded.manifest.site,
    }  # fmt: skip


def _submit_s(loaded: LoadedState, at: Value) -> float:
    if at is None or at == LATER:
        # Half a day is asked at the age of a day.
        return loaded.state.as_of_s + (DAY_S / 2 if at else 0.0)
    found = float(instant_s("--at", at, loaded.state.site["timezone"]) if isinstance(at, str) else at)
    if found < loaded.state.as_of_s:
        known = instant(int(loaded.state.as_of_s))
        raise InputError("--at", f"{instant(int(found))}", f"{known} or later, where the known log ends")
    return found


def model_answers(
    manifest: Manifest, jobs: Sequence[Mapping[str, Value]], questions: History
) -> list[list[float] | None]:
    """For each job six quantiles (s), or None where no published model answers: the site has none, or it refuses.

    The rules read the job's name, comment and submit line, as far as they are given.
    """
    plain = manifest.settings.get("inputs", {})
    if not plain.get("rules") or INPUT_MODELS.name not in manifest.tables:
        return [None] * len(jobs)
    # Only sites with rules wait for these imports.
    from pipeline.ingest.derive import inputs_of  # noqa: PLC0415
    from pipeline.inputs.log_models import Question, answer_questions  # noqa: PLC0415
    from pipeline.settings import INPUT_TEXTS, LogInputSettings  # noqa: PLC0415
    from pipeline.storage import read_table  # noqa: PLC0415

    settings = LogInputSettings.model_validate({"rules": plain["rules"]})
    # Ingest leaves other values out where it anonymises; a query must find the same inputs.
    only_numbers = bool(manifest.settings.get("site", {}).get("anonymise"))
    asked: dict[int, Question] = {}
    for place, job in enumerate(jobs):
        texts = {name: str(job[name]) for name in INPUT_TEXTS if job.get(name) is not None}
        text = inputs_of(texts, settings.rules, only_numbers=only_numbers) if texts else None
        if text is not None:
            asked[place] = Question(
                _named(questions, "what", place) or "", json.loads(text), float(questions.procs[place]),
                _named(questions, "who", place), float(questions.requested_s[place]),
            )  # fmt: skip
    found: list[list[float] | None] = [None] * len(jobs)
    if asked:
        models = read_table(manifest.path(INPUT_MODELS.name), INPUT_MODELS)
        quantiles_s = answer_questions(models, list(asked.values()), settings)
        for place, row in zip(asked, quantiles_s.tolist(), strict=True):
            found[place] = row if row[1] == row[1] else None
    return found


def _named(questions: History, attribute: str, place: int) -> str | None:
    code = int(questions.codes[attribute][place])
    return questions.names[attribute][code] if code >= 0 else None


def memory_answers(manifest: Manifest, jobs: Sequence[Mapping[str, Value]], questions: History) -> list[dict[str, Any]]:
    """Per job the quantiles of its memory and what to ask for, KiB per processor; {} where the log knows no memory.

    Beside these: nodes (None: unknown), the request per processor (None: not given), the promised share, and how often
    the 95% quantile has held. `questions` are the same jobs.
    """
    published = manifest.tables.get(MEMORY_STATE.name)
    if published is None or not published.rows:
        return [{}] * len(jobs)
    path = manifest.path(MEMORY_STATE.name)
    state = loaded_state(read_columns(path, MEMORY_STATE), str(path))
    unknown = np.full(len(questions), np.nan)
    asked = replace(questions, requested_s=questions.requested_mem_kib, requested_mem_kib=unknown)
    quantiles_kib = estimate(state, asked)[:, :N_QUANTILES]
    figures = score_of(state.record.runtime_s, state.record.quantiles_s)
    facts = {
        "memory_promise": PROMISE, "memory_held_q95": figures.get("coverage_q95"),
        "memory_n_scored": int(figures.get("n_scored", 0)),
    }  # fmt: skip
    per_node = manifest.settings.get("site", {}).get("procs_per_node")
    asked_kib, share = recommended_kib(quantiles_kib, questions.procs, price_now(state.record))
    numbers = (one.tolist() for one in (questions.procs, quantiles_kib, asked_kib, share))
    rows = []
    for job, procs, own, promised, kept in zip(jobs, *numbers, strict=True):
        # As many nodes as the processors fill, where none were asked for.
        filled = math.ceil(procs / per_node) if per_node else None
        nodes = int(float(job["nodes"] or 0)) if job.get("nodes") else filled
        by_share = {f"used_mem_kib_q{100 * share:.0f}": kib for share, kib in zip(QUANTILES, own, strict=True)}
        rows.append(
            by_share | {"recommended_mem_kib": promised, "recommended_share": kept, "memory_nodes": nodes} | facts
        )
    return rows


PROGRAMS = ("application", "job_name")
ENDS = ("runtime_s_lo80", "runtime_s", "runtime_s_hi80", "runtime_s_hi95")
"""Columns of PREDICTIONS: the quantiles of 10, 50, 90 and 97.5%."""
Q80, Q95, Q99 = 0.66, 0.54, 0.54
"""Quantiles in logs as on a normal distribution: 80% between 50 and 90, 95% between 90 and 97.5; 99% is as far beyond
97.5 as this part of the distance from 90 to it."""
GRACE_S = 300.0
"""How far beyond the request a quantile above the median may lie: so long a scheduler may take to stop a job."""


class Curve(NamedTuple):
    """PREDICTIONS of a group, in order of count."""

    label: str
    is_of_gpus: bool
    names_program: bool
    is_kind: bool
    """Whether the job tells the group's program, or all that groups are told apart by."""
    counts: Floats
    # (counts, 6) quantiles, s; NaN: open.
    quantiles_s: Floats
    has_run: Bools
    advice: list[str | None]

    def ratio(self, count: float, other: float) -> float:
        """The median at a count over that at another one; between counts medians are interpolated in logs."""
        logs = np.interp(np.log([count, other]), np.log(self.counts), np.log(self.quantiles_s[:, 1]))
        return float(np.exp(logs[0] - logs[1]))

    def nearest(self, count: float, *, that_ran: bool = False) -> int | None:
        """The place of the nearest count, of those that ran or of all."""
        places = np.flatnonzero(self.has_run) if that_ran else np.arange(len(self.counts))
        return int(places[np.argmin(np.abs(np.log(self.counts[places] / count)))]) if len(places) else None


def curves_of(manifest: Manifest) -> Callable[[Mapping[str, Value], Value], Curve | None]:
    """A function from a job, as it would stand in JOBS, and the type of its GPUs to the curve of its group.

    Values that the job does not tell may be any: of several groups it is the one with the most jobs.
    """
    held: dict[Any, Curve | None] = {}
    if not {GROUPS.name, PREDICTIONS.name} <= set(manifest.tables):
        return lambda _job, _gpu_type: None
    shown = ("group_id", "label", "axis", "n_jobs", "gpu_type", *TEMPLATE_COLUMNS)
    groups = read_columns(manifest.path(GROUPS.name), GROUPS, shown)
    filled = [name for name in TEMPLATE_COLUMNS if groups.column(name).null_count < groups.num_rows]

    def curve(job: Mapping[str, Value], gpu_type: Value) -> Curve | None:
        wanted = {name: job[name] for name in filled if job.get(name) is not None} | {"gpu_type": gpu_type}
        key = tuple(wanted.items())
        if key not in held:
            places = matching_places(groups, wanted)
            n_jobs = integers(groups.column("n_jobs"))[0][places]
            place = int(places[np.argmax(n_jobs)]) if len(places) else None
            names_program = bool(set(PROGRAMS) & set(wanted))
            is_kind = names_program or (bool(filled) and set(filled) <= set(wanted))
            of_group = None if place is None else groups.slice(place, 1).to_pylist()[0]
            held[key] = of_group and _curve(manifest, of_group, names_program, is_kind)
        return held[key]

    return curve


def _curve(manifest: Manifest, group: Mapping[str, Any], names_program: bool, is_kind: bool) -> Curve | None:
    columns = ("group_id", "procs", *ENDS, "method", "reliability", "advice")
    table = rows_where(manifest.path(PREDICTIONS.name), PREDICTIONS, "group_id", group["group_id"], columns)
    counts = integers(table.column("procs"))[0].astype(np.float64)
    order = np.argsort(counts, kind="stable")
    # A law that comes close to no run gives no ratio.
    told = [one != "broken" for one in table.column("reliability").to_pylist()]
    order = order[(floats(table, "runtime_s") > 0)[order] & np.array(told, np.bool_)[order]]
    if not len(order):
        return None
    lo80_s, q50_s, hi80_s, hi95_s = (floats(table, name)[order] for name in ENDS)
    quantiles_s = np.column_stack([
        lo80_s, q50_s, q50_s * (hi80_s / q50_s) ** Q80, hi80_s, hi80_s * (hi95_s / hi80_s) ** Q95,
        hi95_s * (hi95_s / hi80_s) ** Q99,
    ])  # fmt: skip
    methods, advice = ([table.column(name)[int(place)].as_py() for place in order] for name in ("method", "advice"))
    return Curve(
        group["label"], group["axis"] == Axis.GPUS, names_program, is_kind, counts[order],
        quantiles_s, np.array([one == "runs" for one in methods]), advice,
    )  # fmt: skip


def scaled(quantiles_s: Floats, ratio: float, requested_s: float) -> Floats:
    """(6,) quantiles at a count that never ran, from those at one that ran; the median is at most the request.

    Quantiles above it are at most GRACE_S beyond the request, or as far beyond as at the count that ran.
    """
    limit_s = requested_s if requested_s > 0 else np.inf
    most_s = np.maximum(limit_s + GRACE_S, quantiles_s)
    most_s[:2] = limit_s
    return np.minimum(quantiles_s * ratio, most_s)
