"""What `walltime query` does: jobs and the published State in, runtime quantiles and their basis out.

Jobs come from options or a CSV. Their applications are named as ingest stores them, without numbers and suffixes, and
persons are hashed where the tables hold hashed names. The published prediction of a group (`Curve`) answers a kind of
runs, and gives the ratio to a count that never ran.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flows.services import quantities
from flows.services.published.published_folder import live_state, read_columns, rows_where, unreliability_note
from pipeline.application_names import application_of
from pipeline.arrays import DAY_S, Bools, Floats, Value, integers, matching_places
from pipeline.errors import InputError, printable
from pipeline.estimate.answer import GPUS, LIMIT
from pipeline.estimate.estimates import PROMISE, price_now, recommended_kib
from pipeline.estimate.history import WHO, History
from pipeline.estimate.questions import basis_of, completed, first_text, questions_of
from pipeline.estimate.score import N_QUANTILES, QUANTILES, score_of
from pipeline.estimate.state import State, estimate, loaded_state
from pipeline.limits.plan import limit_answer
from pipeline.publish import Manifest, read_version
from pipeline.schema import Axis
from pipeline.tables import GROUPS, INPUT_MODELS, MEMORY_STATE, PREDICTIONS, STATE, TEMPLATE_COLUMNS

METHOD = "walltime"
QUEUES = ("queue", "partition")
INPUTS, PREDICTED = "inputs", "predictions"
"""What says that a model over inputs answered, or the published prediction of a kind of runs."""


@dataclass(frozen=True, slots=True)
class LoadedState:
    """The State of a published folder, with its manifest."""

    manifest: Manifest
    state: State


def state_of(manifest: Manifest, *, is_live: bool = False) -> LoadedState:
    """Load the State of a version, or the live one that continues it; InputError without one, or if it knows no job."""
    path = (live_state(manifest) if is_live else None) or manifest.path(STATE.name)
    state = loaded_state(read_columns(path, STATE), str(path))
    if not len(state.record.runtime_s):
        do = "run over a log with jobs that ended"
        raise InputError(str(path), "a state that has learnt from no job", "one that has learnt from a job", do)
    return LoadedState(manifest, state)


def answer(
    published: Path, job: Mapping[str, Value], key_file: Path | None = None, as_of_s: int | None = None
) -> dict[str, Any]:
    """The answer to one job, given as values of JOBS columns, in plain values; `seconds` is the time it took.

    The value `at` is the submit time, by default the time of the State, or LATER. `as_of_s` chooses an earlier version,
    as `read_version` does. InputError where tables are missing or empty.
    """
    began = time.perf_counter()
    manifest = read_version(published, as_of_s)
    # A version that is chosen by a date answers as it was.
    loaded = state_of(manifest, is_live=as_of_s is None)
    (found,) = answers(loaded, [job], key_file)
    limit = {"limit": limit_answer(manifest.settings, found)}
    notes = list(filter(None, [unreliability_note(manifest)]))
    return found | limit | facts_of(loaded) | {"notes": notes, "seconds": time.perf_counter() - began}


def answers(
    loaded: LoadedState, jobs: Sequence[Mapping[str, Value]], key_file: Path | None = None
) -> list[dict[str, Any]]:
    """Per job its values as ingest writes them, runtime quantiles (s), the past jobs they rest on, and its memory."""
    manifest, state = loaded.manifest, loaded.state
    # 1. The jobs as ingest stores them, and as questions to the State.
    ingested = as_ingested(loaded, key_file)
    known = [ingested(job) for job in jobs]
    submit_s = np.array([_submit_s(state, job.get("at")) for job in jobs])
    per_node = manifest.settings.get("site", {}).get("procs_per_node")
    given = questions_of(known, submit_s, state.site["timezone"], per_node)
    questions = completed(state, given)
    basis = basis_of(state, questions)
    usual_s = np.where(np.isnan(given.requested_s), questions.requested_s, np.nan)
    gpu_types = [_named(questions, "gpu_type", place) for place in range(len(jobs))]
    # 2. Their groups' curves. Where a kind of jobs never ran on a count that its curve has, the estimator answers for
    # the nearest count that ran, and the curve gives the ratio.
    curves = list(map(curves_of(manifest), known, gpu_types))
    counts = [
        (questions.gpus if curve and curve.is_of_gpus else questions.procs)[at] for at, curve in enumerate(curves)
    ]
    procs, gpus, scaled_from = questions.procs.copy(), questions.gpus.copy(), dict[int, float]()
    for place, curve in enumerate(curves):
        if curve and curve.names_program and not basis.n_kind[place] and curve.has_run.any():
            ran = curve.counts[curve.nearest(counts[place], curve.has_run)]
            if ran != counts[place]:
                scaled_from[place] = ran
                procs[place] = max(np.rint(procs[place] * ran / counts[place]), 1.0)
                gpus[place] = ran if curve.is_of_gpus else gpus[place]
    quantiles_s = estimate(state, replace(questions, procs=procs, gpus=gpus))[:, :N_QUANTILES]
    # 3. What answers: a model over inputs, else the prediction of a kind of runs, else the estimator.
    log_has_gpus = bool((state.jobs.values[:, GPUS] > 0).any())
    has_requests = float(np.mean(state.jobs.values[:, LIMIT] > 0)) > 0.5
    of_inputs, memory = model_answers(manifest, jobs, questions), memory_answers(manifest, known, questions)
    found = []
    for place, (job, curve) in enumerate(zip(known, curves, strict=True)):
        about: dict[str, Any] = {"answered_by": METHOD, "group": None, "scaled_from": None, "advice": None}
        own_s = quantiles_s[place]
        if curve and place in scaled_from:
            ratio = curve.ratio(counts[place], scaled_from[place])
            own_s = scaled(own_s, ratio, float(questions.requested_s[place]))
            about |= {"group": curve.label, "scaled_from": int(scaled_from[place])}
        # A kind has no request. Where most of the log's jobs have none, a job of a user is the estimator's.
        if curve and curve.is_kind and not job.get("requested_s") and (has_requests or not first_text(job, WHO)):
            nearest = curve.nearest(counts[place])
            kind_s = curve.quantiles_s[nearest] * curve.ratio(counts[place], float(curve.counts[nearest]))
            if np.isfinite(kind_s).all():
                own_s, advice = kind_s, curve.advice[nearest]
                about = {"answered_by": PREDICTED, "group": curve.label, "scaled_from": None, "advice": advice}
                usual_s[place] = np.nan
        if place in of_inputs:
            own_s, about["answered_by"] = np.array(of_inputs[place]), INPUTS
        by_share = quantities.by_level("runtime_s", QUANTILES, own_s.tolist())
        # `known` has a queue as a partition, too, where the log has partitions.
        named = {**jobs[place], "application": job.get("application")}
        found.append({
            "job": job, **about, "runtime_s": by_share["runtime_s_q50"], **by_share,
            "submit_s": float(submit_s[place]), "age_s": max(float(submit_s[place]) - state.as_of_s, 0.0),
            "procs": int(questions.procs[place]), "gpus": int(np.nan_to_num(questions.gpus[place])),
            "gpu_type": gpu_types[place], "is_usual_procs": bool(np.isnan(given.procs[place])),
            "usual_requested_s": float(usual_s[place]) if np.isfinite(usual_s[place]) else None,
            "log_has_gpus": log_has_gpus, "unknown_names": unknown_names(state, named),
            **{name: column[place].item() for name, column in basis._asdict().items()}, **memory[place],
        })  # fmt: skip
    return found


def unknown_names(state: State, job: Mapping[str, Value]) -> list[str]:
    """The columns and values of a job's application, queue, partition and QOS that no job of the log has."""
    # A log may have one of queue and partition, which mean the same.
    names_of = {"application": ("what",), "queue": QUEUES, "partition": QUEUES, "qos": ("qos",)}
    return [
        f"{column} {job[column]}"
        for column, names in names_of.items()
        if job.get(column) is not None and not any(job[column] in state.names.texts[name] for name in names)
    ]


def facts_of(loaded: LoadedState) -> dict[str, Any]:
    """Facts common to all answers: the method, its errors on this log, and the time up to which the log is known."""
    figures = score_of(loaded.state.record.runtime_s, loaded.state.record.quantiles_s)
    coverage = {f"held_q{round(100 * share)}": figures[f"coverage_q{100 * share:.0f}"] for share in QUANTILES}
    return {
        "method": METHOD, "mae_over_mean": figures["mae_over_mean"], "n_scored": int(figures["n_scored"]), **coverage,
        "as_of_s": int(loaded.state.as_of_s), "run_id": loaded.manifest.run_id, "site": loaded.manifest.site,
    }  # fmt: skip


def _submit_s(state: State, at: Value) -> float:
    if at is None or at == quantities.LATER:
        # Half a day is asked at the age of a day.
        return state.as_of_s + (DAY_S / 2 if at else 0.0)
    found = float(quantities.instant_s("--at", at, state.site["timezone"]) if isinstance(at, str) else at)
    if found < state.as_of_s:
        known = quantities.instant(int(state.as_of_s))
        raise InputError("--at", f"{quantities.instant(int(found))}", f"{known} or later, where the known log ends")
    return found


def model_answers(
    manifest: Manifest, jobs: Sequence[Mapping[str, Value]], questions: History
) -> dict[int, list[float]]:
    """Six quantiles (s) by the index of a job; without those for which the site has no model, or it refuses.

    The rules read the job's name, comment and submit line, as far as they are given.
    """
    plain = manifest.settings.get("inputs", {})
    if not plain.get("rules") or INPUT_MODELS.name not in manifest.tables:
        return {}
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
        if texts and (text := inputs_of(texts, settings.rules, only_numbers=only_numbers)) is not None:
            asked[place] = Question(
                _named(questions, "what", place) or "", json.loads(text), float(questions.procs[place]),
                _named(questions, "who", place), float(questions.requested_s[place]),
            )  # fmt: skip
    if not asked:
        return {}
    models = read_table(manifest.path(INPUT_MODELS.name), INPUT_MODELS)
    rows = answer_questions(models, list(asked.values()), settings).tolist()
    return {place: row for place, row in zip(asked, rows, strict=True) if not math.isnan(row[1])}


def _named(questions: History, attribute: str, place: int) -> str | None:
    code = int(questions.codes[attribute][place])
    return questions.names[attribute][code] if code >= 0 else None


def memory_answers(manifest: Manifest, jobs: Sequence[Mapping[str, Value]], questions: History) -> list[dict[str, Any]]:
    """Per job the quantiles of its memory and what to ask for, KiB per processor; {} where the log knows no memory.

    Beside these: nodes (None: unknown), the share of such jobs that stay under it, and the promised share of all jobs.
    `questions` are the same jobs.
    """
    published = manifest.tables.get(MEMORY_STATE.name)
    if published is None or not published.rows:
        return [{}] * len(jobs)
    path = manifest.path(MEMORY_STATE.name)
    state = loaded_state(read_columns(path, MEMORY_STATE), str(path))
    unknown = np.full(len(questions), np.nan)
    asked = replace(questions, requested_s=questions.requested_mem_kib, requested_mem_kib=unknown)
    quantiles_kib = estimate(state, asked)[:, :N_QUANTILES]
    per_node = manifest.settings.get("site", {}).get("procs_per_node")
    asked_kib, shares = recommended_kib(quantiles_kib, questions.procs, price_now(state.record))
    rows = []
    for place, job in enumerate(jobs):
        # As many nodes as the processors fill, where none were asked for.
        filled = math.ceil(questions.procs[place] / per_node) if per_node else None
        rows.append({
            **quantities.by_level("used_mem_kib", QUANTILES, quantiles_kib[place].tolist()),
            "recommended_mem_kib": float(asked_kib[place]), "recommended_share": float(shares[place]),
            "memory_nodes": int(float(job["nodes"] or 0)) if job.get("nodes") else filled,
            "memory_promise": PROMISE,
        })  # fmt: skip
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
    """Whether the job names the group's program, or all that groups are told apart by, or this group alone."""
    counts: Floats
    # (counts, 6) quantiles, s; NaN: open.
    quantiles_s: Floats
    has_run: Bools
    advice: list[str | None]

    def ratio(self, count: float, other: float) -> float:
        """The median at a count over that at another one; between counts medians are interpolated in logs."""
        logs = np.interp(np.log([count, other]), np.log(self.counts), np.log(self.quantiles_s[:, 1]))
        return float(np.exp(logs[0] - logs[1]))

    def nearest(self, count: float, among: Bools | None = None) -> int:
        """The place of the nearest count, of all or of some."""
        far = np.abs(np.log(self.counts / count))
        return int(np.argmin(far if among is None else np.where(among, far, np.inf)))


def curves_of(manifest: Manifest) -> Callable[[Mapping[str, Value], Value], Curve | None]:
    """A function from a job, as it would stand in JOBS, and the type of its GPUs to the curve of its group.

    Values that the job does not tell may be any: of several groups it is the one with the most jobs.
    """
    if not {GROUPS.name, PREDICTIONS.name} <= set(manifest.tables):
        return lambda _job, _gpu_type: None
    shown = ("group_id", "label", "axis", "n_jobs", "gpu_type", *TEMPLATE_COLUMNS)
    groups = read_columns(manifest.path(GROUPS.name), GROUPS, shown)
    filled = [name for name in TEMPLATE_COLUMNS if groups.column(name).null_count < groups.num_rows]

    @cache
    def curve(*wanted: tuple[str, Value]) -> Curve | None:
        places = matching_places(groups, dict(wanted))
        if not len(places):
            return None
        named = {name for name, _ in wanted if name in filled}
        names_program = bool(named & set(PROGRAMS))
        is_kind = names_program or (bool(named) and (len(places) == 1 or len(named) == len(filled)))
        largest = int(places[np.argmax(integers(groups.column("n_jobs"))[0][places])])
        return _curve(manifest, groups.slice(largest, 1).to_pylist()[0], names_program, is_kind)

    def of_job(job: Mapping[str, Value], gpu_type: Value) -> Curve | None:
        named = {name: job[name] for name in filled if job.get(name) is not None}
        return curve(*named.items(), ("gpu_type", gpu_type))

    return of_job


def _curve(manifest: Manifest, group: Mapping[str, Any], names_program: bool, is_kind: bool) -> Curve | None:
    columns = ("group_id", "procs", *ENDS, "method", "reliability", "advice")
    table = rows_where(manifest.path(PREDICTIONS.name), PREDICTIONS, "group_id", group["group_id"], columns)
    # A law that comes close to no run gives no ratio.
    told = [row for row in table.to_pylist() if (row["runtime_s"] or 0.0) > 0 and row["reliability"] != "broken"]
    if not told:
        return None
    rows = sorted(told, key=lambda row: row["procs"])
    counts, lo80_s, q50_s, hi80_s, hi95_s = (np.array([row[n] for row in rows], np.float64) for n in ("procs", *ENDS))
    quantiles_s = np.column_stack([
        lo80_s, q50_s, q50_s * (hi80_s / q50_s) ** Q80, hi80_s, hi80_s * (hi95_s / hi80_s) ** Q95,
        hi95_s * (hi95_s / hi80_s) ** Q99,
    ])  # fmt: skip
    has_run, advice = np.array([row["method"] == "runs" for row in rows]), [row["advice"] for row in rows]
    is_of_gpus = group["axis"] == Axis.GPUS
    return Curve(group["label"], is_of_gpus, names_program, is_kind, counts, quantiles_s, has_run, advice)


def scaled(quantiles_s: Floats, ratio: float, requested_s: float) -> Floats:
    """(6,) quantiles at a count that never ran, from those at one that ran; the median is at most the request.

    Quantiles above it are at most GRACE_S beyond the request, or as far beyond as at the count that ran.
    """
    limit_s = requested_s if requested_s > 0 else np.inf
    most_s = np.maximum(limit_s + GRACE_S, quantiles_s)
    most_s[:2] = limit_s
    return np.minimum(quantiles_s * ratio, most_s)


def _text(text: str, _: str) -> str:
    return text


def _count(text: str, option: str, least: int = 1) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text[:17]) <= 2**53:
        found = "no whole number above 0" if least else "no whole number"
        raise InputError(f"{option} {printable(text)}", found, f"a whole number, {least} or more")
    return int(text)


def _positive(text: str, option: str) -> float:
    found = quantities.number_of(text)
    if found is None or found <= 0:
        raise InputError(f"{option} {printable(text)}", "no number above 0", "a number above 0")
    return found


TEXTS = (
    "user", "user_group", "account", "application", "job_name", "comment", "submit_line", "queue", "partition", "qos",
    "problem_size", "array_id", "gpu_type",
)  # fmt: skip
JOB_FIELDS: dict[str, tuple[str, Callable[[str, str], Value]]] = {
    **{name: (name, _text) for name in TEXTS},
    "procs": ("procs", _count), "requested_procs": ("procs", _count),
    "nodes": ("nodes", _count), "gpus": ("gpus", partial(_count, least=0)),
    "requested": ("requested_s", quantities.seconds), "requested_s": ("requested_s", _positive),
    "memory": ("memory", quantities.kibibytes),
    "mem_per_cpu": ("requested_mem_kib", quantities.kibibytes), "requested_mem_kib": ("requested_mem_kib", _positive),
    "at": ("at", _text), "submit_s": ("at", _positive),
}  # fmt: skip
"""By option or column name: the column of JOBS that it sets, and the parser of its text."""

IDS = ("job_id", "id", "jobid")
"""Columns that identify a job, in lower case; the first one in the file is used."""


def answer_batch(loaded: LoadedState, path: Path, key_file: Path | None) -> tuple[list[dict[str, Any]], str]:
    """A row for each job of a CSV, and what the file holds in words.

    A row has the job's id (the text of an id column, else its number from 1), its given values, its runtime quantiles
    (s), the numbers of jobs they rest on, and its memory. InputError names the wrong line, or the unknown columns.
    """
    # A line of separators alone is a job of which nothing is known.
    expected = "a CSV of jobs below a line of column names"
    where, ((_, header), *listed) = quantities.text_table(path, expected, keeps_unknown=True)
    names = [name.lower().lstrip("-").replace("-", "_") for name in header]
    if unknown := [name for name in names if name not in JOB_FIELDS and name not in IDS]:
        found = f"columns {', '.join(printable(name) for name in unknown)}"
        raise InputError(where, found, f"columns of {', '.join((*JOB_FIELDS, IDS[0]))}")
    if len({JOB_FIELDS[name][0] if name in JOB_FIELDS else name for name in names}) < len(names):
        raise InputError(where, "two columns with the same meaning", "one of them")
    quantities.check_lengths(where, names, listed)
    jobs = []
    for line, row in listed:
        try:
            jobs.append(job_of({name: cell for name, cell in zip(names, row, strict=True) if name in JOB_FIELDS}))
        except InputError as error:
            found = f"{error.where}: {error.found}"
            raise InputError(f"{where}, line {line}", found, error.expected) from None
    described = f"{len(jobs):,} jobs of {printable(str(path), 1000)}"
    place = next((names.index(name) for name in IDS if name in names), None)
    fields = dict.fromkeys(name for name, _ in JOB_FIELDS.values())
    given = [name for name in fields if any(job.get(name) is not None for job in jobs)]
    wanted = ("answered_by", "runtime_s_q", "n_", "is_known", "used_mem_kib_q", "recommended_")
    answered = []
    for nth, (job, one) in enumerate(zip(jobs, answers(loaded, jobs, key_file), strict=True)):
        named = {"row": nth + 1} if place is None else {header[place]: listed[nth][1][place] or None}
        shown = {name: value for name, value in one.items() if name.startswith(wanted)}
        answered.append(named | {name: job.get(name) for name in given} | shown)
    return answered, described


def job_of(texts: Mapping[str, str | None]) -> dict[str, Value]:
    """Values of JOBS columns from texts by name as in JOB_FIELDS; `at` is a text or s since 1970.

    InputError for a text that cannot be used. Memory of the whole job is divided by its processors, else by one.
    """
    found: dict[str, Value] = {}
    for option, text in texts.items():
        name, parse = JOB_FIELDS[option]
        found[name] = parse(text, f"--{option.replace('_', '-')}") if text else None
    memory_kib = found.pop("memory", None)
    if memory_kib is not None:
        found["requested_mem_kib"] = float(memory_kib) / float(found.get("procs") or 1)
    return found


Job = Mapping[str, Value]


def as_ingested(loaded: LoadedState, key_file: Path | None = None) -> Callable[[Job], dict[str, Value]]:
    """A function from a job's values to those that JOBS would hold.

    A name that the State knows is not changed. InputError where names are hashed and the key is missing.
    """
    state, settings = loaded.state, loaded.manifest.settings
    filled, texts = set(state.site["columns"].split()), state.names.texts
    by_rule = _rules(settings.get("ingest", {}).get("application_rules", ()))
    hasher = cache(lambda: _hasher(state, settings, key_file))

    def hashed(column: str, text: str) -> str:
        return str(hasher().of(column, text)) if state.site["names"] else text

    @cache
    def application(text: str, is_job_name: bool) -> str | None:
        if not is_job_name and text in texts["what"]:
            return text
        made = (application_of(text), *(() if is_job_name else (text,)))
        found = [by_rule(text), *(one and hashed("application", one) for one in made)]
        names = [name for name in found if name]
        return next((name for name in names if is_job_name or name in texts["what"]), names[0] if names else None)

    @cache
    def person(column: str, text: str) -> str:
        attribute, name = "what" if column == "job_name" else "who", text if column == "user" else f"{column} {text}"
        is_known = name in texts[attribute] or (column == "user_group" and text in texts["user_group"])
        return text if is_known else hashed(column, text)

    def found(job: Job) -> dict[str, Value]:
        done = dict(job)
        given, name = job.get("application"), job.get("job_name")
        if given is not None or name is not None:
            done["application"] = application(str(given if given is not None else name), given is None)
        for column in ("user", "user_group", "account", "job_name"):
            if job.get(column) is not None:
                done[column] = person(column, str(job[column]))
        # A log may have one of the two columns that mean the same.
        for own, other in (QUEUES, QUEUES[::-1]):
            if own in filled and other not in filled and job.get(own) is None and job.get(other) is not None:
                done[own] = job[other]
        return done

    return found


def _hasher(state: State, settings: Mapping[str, Any], key_file: Path | None) -> Any:
    """What hashes names with the tables' key; InputError without it."""
    # These imports take 0.1 s, and are needed for hashed names only.
    from pipeline.ingest.privacy import ANONYMISED, hasher_of  # noqa: PLC0415
    from pipeline.settings import SiteSettings  # noqa: PLC0415

    path = key_file or settings.get("site", {}).get("key_file")
    if path is None:
        raise InputError("the query", "a name, but the tables hold hashed names", "their key", "give --key-file")
    own = hasher_of(SiteSettings(anonymise=True, key_file=str(path)))
    if own.mark[ANONYMISED] != state.site["names"]:
        raise InputError("--key-file", "another key", "the one with which the tables' names are hashed")
    return own


def _rules(plain: Sequence[Mapping[str, Any]]) -> Callable[[str], str | None]:
    """A function from a job's name to its application by the site's own rules; the first match wins."""
    if not plain:
        return lambda _: None
    import pyarrow as pa  # noqa: PLC0415  (the same)

    from pipeline.ingest.derive import by_rules, rules_of  # noqa: PLC0415  (the same)
    from pipeline.settings import TextRule  # noqa: PLC0415

    rules = rules_of([TextRule.model_validate(rule) for rule in plain], "ingest.application_rules")

    def application(text: str) -> str | None:
        found = by_rules(pa.table({"job_name": [text]}), rules)
        return None if found is None else found[0].as_py()

    return application
