"""Reasons why predictions are not reliable, as codes and sentences, and what would change that for a whole log."""

from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Bools, Floats
from pipeline.predict.predictive import TargetRows
from pipeline.predict.track_record import ENOUGH, MIN_WINDOWS, Record

Words = npt.NDArray[np.object_]

NO_RECORD, MISSED = "no_record", "missed"

_MEANING = {
    NO_RECORD: "too few past windows have jobs on that count",
    MISSED: "past windows missed the median by more than 25%",
    "one_size": "the group ran on one count only",
    "wide_group": "the group mixes different work",
    "few_sizes": "too few counts tell the laws apart",
    "high_error": "no law comes close to what ran",
}


def reliability_texts(
    predictions: pa.Table, believed: Bools, record: Record, targets: TargetRows, half_iqr: Floats
) -> tuple[list[str], list[str | None]]:
    """Per row: `ok`, or the codes of the law's prediction and of the track record; and a sentence."""
    old = predictions.column("reliability").to_pylist()
    advice = predictions.column("advice").to_pylist()
    n_windows, share = record.windows(targets.cell), record.share(targets.cell, half_iqr)
    words = [_codes(old[row], bool(believed[row]), int(n_windows[row])) for row in range(len(old))]
    says = [bool(believed[row]) or (old[row] != "ok" and advice[row] is not None) for row in range(len(old))]
    sentences = [
        advice[row] if says[row] else _sentence(int(n_windows[row]), float(share[row])) for row in range(len(old))
    ]
    return words, sentences


def _codes(old: str, is_believed: bool, n_windows: int) -> str:
    if is_believed:
        return "ok"
    lacking = NO_RECORD if n_windows < MIN_WINDOWS else MISSED
    return lacking if old == "ok" else f"{old}+{lacking}"


def _sentence(n_windows: int, share: float) -> str:
    if n_windows < MIN_WINDOWS:
        return f"Of {MIN_WINDOWS} past windows with such jobs that a track record needs, there are {n_windows}."
    return f"In past windows {share:.0%} of such jobs took within 25% of what was predicted, not {ENOUGH:.0%}."


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
