"""The MPI functions that make events, by what they do."""

SENDS = frozenset(
    f"MPI_{name}" for name in ("Send", "Ssend", "Bsend", "Rsend", "Isend", "Issend", "Ibsend", "Irsend")
)  # fmt: skip
"""A send counts at its call, also a non-blocking one."""

RECEIVES = frozenset(("MPI_Recv", "MPI_Mrecv"))
POSTED_RECEIVES = frozenset(("MPI_Irecv", "MPI_Imrecv"))
"""They count at the call that completes them."""

EXCHANGES = frozenset(("MPI_Sendrecv", "MPI_Sendrecv_replace"))
"""A send and a receive in one call."""

COMPLETES_ALL = frozenset(("MPI_Waitall", "MPI_Testall"))
"""They complete every open request of the rank, unless they name one: traces do not list their requests."""

POLLING = frozenset(("MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Iprobe", "MPI_Improbe"))
"""How often they find nothing depends on the machine, so that such calls are not counted."""

COMPLETES_ONE = frozenset(("MPI_Wait", "MPI_Test", "MPI_Waitany", "MPI_Testany", "MPI_Waitsome", "MPI_Testsome"))
"""They complete the request that they name as `source>destination`."""

_COLLECTIVES = (
    "Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv",
    "Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan",
)  # fmt: skip
_MANAGEMENT = ("Init", "Init_thread", "Finalize", "Comm_split", "Comm_dup", "Comm_create", "Cart_create", "Comm_free")
COLLECTIVES = frozenset(
    [f"MPI_{name}" for name in (*_COLLECTIVES, *_MANAGEMENT)] + [f"MPI_I{name.lower()}" for name in _COLLECTIVES]
)
"""All members of the communicator take part; a non-blocking one counts at its call."""

ROOTED = frozenset(
    f"MPI_{name}" for one in ("Bcast", "Reduce", "Gather", "Gatherv", "Scatter", "Scatterv")
    for name in (one, f"I{one.lower()}")
)  # fmt: skip

FIRST_CALLS, LAST_CALL = frozenset(("MPI_Init", "MPI_Init_thread")), "MPI_Finalize"
