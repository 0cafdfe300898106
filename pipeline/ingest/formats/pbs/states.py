"""What PBS's record types and exit statuses mean in Slurm's words.

Exit_status of an E record (PBS Professional 2024.1 Administrator's Guide, 10.15.8 "Job Exit Status Codes", and
JOB_EXEC_* in OpenPBS's job.h; TORQUE 6.1 Administrator Guide, "Job exit status"):

    0                           COMPLETED
    1 to 255                    FAILED: the script's own, or 128 + the signal its shell saw
    256 and more                FAILED: 256 + the signal the job was killed by (271: SIGTERM)
    -29             PBS only    TIMEOUT: JOB_EXEC_KILL_WALLTIME
    -26, -27        PBS only    OUT_OF_MEMORY: JOB_EXEC_KILL_VMEM, JOB_EXEC_KILL_MEM
    -11             TORQUE only TIMEOUT: JOB_EXEC_OVERLIMIT_WT (in PBS -11 is a rerun)
    -10             TORQUE only OUT_OF_MEMORY: JOB_EXEC_OVERLIMIT_MEM; but TIMEOUT where it ran past its walltime,
                                because TORQUE 2.5 to 4 wrote it for any limit (in PBS -10 is a bad uid)
    -4, -5, -6      both        NODE_FAIL: the job was aborted as its MoM started anew
    -20             PBS only    NODE_FAIL: JOB_EXEC_RERUN_MS_FAIL, the first node was lost
    any other below 0           FAILED

TORQUE often writes 271 where the walltime was exceeded, but writes it for qdel as well: no TIMEOUT is guessed from it.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipeline.core.arrays import Bools, Ints
from pipeline.core.buffers import arrow, texts
from pipeline.ingest.formats.pbs.scan import KINDS

STATES = (
    "CANCELLED", "COMPLETED", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PENDING", "REQUEUED", "RUNNING", "SUSPENDED",
    "TIMEOUT",
)  # fmt: skip
CODE = {name: np.int32(place) for place, name in enumerate(STATES)}
UNKNOWN = np.int32(-1)
_OF_KIND = {
    "Q": "PENDING", "S": "RUNNING", "R": "REQUEUED", "D": "CANCELLED", "A": "CANCELLED", "z": "SUSPENDED",
}  # fmt: skip
_BOTH = {-4: "NODE_FAIL", -5: "NODE_FAIL", -6: "NODE_FAIL"}
_PBS_ONLY = {-29: "TIMEOUT", -26: "OUT_OF_MEMORY", -27: "OUT_OF_MEMORY", -20: "NODE_FAIL"}
_TORQUE_ONLY = {-11: "TIMEOUT", -10: "OUT_OF_MEMORY"}

_OVERLIMIT = -10

Codes = npt.NDArray[np.int32]


def codes(kind: Ints, status: Ints, has_status: Bools, is_torque: Bools, is_over: Bools) -> Codes:
    """Index into STATES of each record's state, -1 where an E record has no exit status.

    is_over: whether the record's walltime used is more than the one asked for.
    """
    state = np.array([CODE[_OF_KIND[letter]] if letter in _OF_KIND else UNKNOWN for letter in KINDS], np.int32)[kind]
    ended = (kind == KINDS.index("E")) & has_status
    state[ended] = np.where(status[ended] == 0, CODE["COMPLETED"], CODE["FAILED"])
    for known, where in ((_BOTH, ended), (_PBS_ONLY, ended & ~is_torque), (_TORQUE_ONLY, ended & is_torque)):
        for number, name in known.items():
            state[where & (status == number)] = CODE[name]
    state[ended & is_torque & (status == _OVERLIMIT) & is_over] = CODE["TIMEOUT"]
    return state


def categories(state: Codes, names: Sequence[str] = STATES) -> pa.DictionaryArray:
    """The states as categories."""
    return pa.DictionaryArray.from_arrays(arrow(np.maximum(state, 0), state < 0), texts(names))
