"""What `walltime query` does, apart from printing: jobs, the published State, answers and what they rest on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from flows.durations import instant, instant_s
from flows.query_fit import fit_of
from flows.query_names import as_ingested
from flows.run_words import none_is_ok
from pipeline.core.arrays import Floats
from pipeline.core.errors import InputError
from pipeline.core.matching import Value
from pipeline.core.store import read_columns
from pipeline.core.tables import STATE
from pipeline.core.version import code_version
from pipeline.estimate.history import History
from pipeline.estimate.interpretable import interpreted
from pipeline.estimate.questions import Basis, basis_of, questions_of, score_of, usual_procs
from pipeline.estimate.score import QUANTILES
from pipeline.estimate.state import State
from pipeline.estimate.state_table import loaded_state
from pipeline.estimate.walltime import estimate
from pipeline.publish import Manifest, load_manifest

if TYPE_CHECKING:
    from pipeline.core.estimate_settings import ForecastSettings

METHOD = "walltime"

FEW = 300
"""Up to as many questions are answered sooner than compiled kernels are loaded."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a folder's tables hold to answer from."""

    manifest: Manifest
    state: State
    settings: ForecastSettings
    where: str


def held_in(published: Path, n_questions: int = 1) -> Held:
    """The State of a published folder; InputError where there is none, or it has learnt from no job."""
    manifest = load_manifest(published)
    path = manifest.path(STATE.name)
    # Compiled kernels take arrays that could be written, and copying these takes longer than a few questions.
    state, settings = loaded_state(
        read_columns(path, STATE), str(path), goes_on=n_questions > FEW, is_own=manifest.code == code_version()
    )
    if not len(state.record.runtime_s):
        do = "run over a log with jobs that ended"
        raise InputError(str(path), "a state that has learnt from no job", "one that has seen a job end", do)
    return Held(manifest, state, settings, str(path))


def answer(published: Path, job: Mapping[str, Value], key_file: Path | None = None) -> dict[str, Any]:
    """The answer to one job, as values of JOBS columns, in plain values; `seconds` it took, from the manifest on.

    Its value `at` says when it is submitted, by default at the State's time. InputError where tables are missing or
    know nothing.
    """
    began = time.perf_counter()
    held = held_in(published)
    (found,) = answers(held, [job], key_file)
    fit = {"fit": fit_of(held.manifest, found["job"])}
    notes = {"notes": [sentence for sentence in (none_is_ok(held.manifest),) if sentence]}
    return found | fit | facts_of(held) | notes | {"seconds": time.perf_counter() - began}


def answers(held: Held, jobs: Sequence[Mapping[str, Value]], key_file: Path | None = None) -> list[dict[str, Any]]:
    """Per job its values as ingest writes them, its quantiles, s, and what these rest on."""
    ingested = as_ingested(held.state, held.manifest.settings, key_file)
    known = [ingested(job) for job in jobs]
    submit_s = np.array([_at_s(held, job.get("at")) for job in jobs])
    questions = questions_of(known, submit_s, held.state.site["timezone"])
    is_open = np.isnan(questions.procs)
    if is_open.any():
        questions.procs[is_open] = usual_procs(held.state, questions)[is_open]
    basis = basis_of(held.state, questions)
    columns = (submit_s, questions.procs, is_open, *basis)
    rows = zip(known, _asked(held, questions), *(column.tolist() for column in columns), strict=True)
    return [_plain(job, quantiles_s, held.state.as_of_s, *values) for job, quantiles_s, *values in rows]


def _plain(
    job: dict[str, Value], quantiles_s: list[float], as_of_s: float, submit_s: float, procs: float, is_usual: bool,
    *basis: int,
) -> dict[str, Any]:  # fmt: skip
    by_share = {f"runtime_s_q{round(100 * share)}": s for share, s in zip(QUANTILES, quantiles_s, strict=True)}
    return {
        "job": job, "runtime_s": by_share["runtime_s_q50"], **by_share, "submit_s": submit_s,
        "age_s": max(submit_s - as_of_s, 0.0), "procs": int(procs), "is_usual_procs": is_usual,
        **dict(zip(Basis._fields, basis, strict=True)),
    }  # fmt: skip


def facts_of(held: Held) -> dict[str, Any]:
    """What holds for every answer: the method, how good it was on this log, and until when it knows the log."""
    figures = score_of(held.state.record)
    promises = {f"held_q{round(100 * share)}": figures[f"coverage_q{100 * share:.0f}"] for share in QUANTILES}
    return {
        "method": METHOD, "mae_over_mean": figures["mae_over_mean"], "n_scored": int(figures["n_scored"]), **promises,
        "as_of_s": int(held.state.as_of_s), "run_id": held.manifest.run_id, "site": held.manifest.site,
    }  # fmt: skip


def _asked(held: Held, questions: History) -> list[list[float]]:
    with interpreted() if len(questions) <= FEW else nullcontext():
        found: Floats = estimate(held.state, questions, held.settings)
    return found.tolist()  # type: ignore[no-any-return]


def _at_s(held: Held, said: Value) -> float:
    if said is None:
        return held.state.as_of_s
    found = float(instant_s("--at", said, held.state.site["timezone"]) if isinstance(said, str) else said)
    if found < held.state.as_of_s:
        known = instant(int(held.state.as_of_s))
        raise InputError("--at", f"{instant(int(found))}", f"{known} or later, as what is known reaches until then")
    return found
