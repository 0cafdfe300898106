"""The judgments that hold for each prediction, as codes, and the advice of the most serious one, as a sentence."""

import numpy as np
import numpy.typing as npt

from pipeline.core.arrays import Bools
from pipeline.predict.judgments import JUDGMENTS, Case

Words = npt.NDArray[np.object_]


def judged(case: Case) -> tuple[Words, Words]:
    """Per row: the codes that hold, joined by + (ok: none), and a sentence (see `advice`)."""
    held = {code: judgment.holds(case) for code, judgment in JUDGMENTS.items()}
    return reliability(held, len(case.curves)), advice(case, held)


def reliability(held: dict[str, Bools], n_rows: int) -> Words:
    """The codes that hold, joined by +; ok where none does."""
    words = np.full(n_rows, "", object)
    for code, where in held.items():
        words[where] = np.where(words[where] == "", code, words[where] + "+" + code)
    words[words == ""] = "ok"
    return words


def advice(case: Case, held: dict[str, Bools]) -> Words:
    """A sentence for the most serious code; without a code, the largest useful allocation, or null."""
    sentences = np.full(len(case.curves), None, object)
    largest = case.curves.largest_useful_procs()
    bounded = np.flatnonzero(np.isfinite(largest) & (case.curves.law != "constant"))
    sentences[bounded] = [
        f"By the law that fits best nothing more is gained beyond {int(largest[row])} processors." for row in bounded
    ]
    for code, where in reversed(held.items()):
        rows = np.flatnonzero(where)
        sentences[rows] = [JUDGMENTS[code].sentence(case, int(row)) for row in rows]
    return sentences
