"""Runs linear algebra on one thread: sums have the same order everywhere, and waiting threads take no processor."""

from collections.abc import Callable
from functools import cache, wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """The function, during which BLAS has one thread; afterwards it has as many as before."""

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited


@cache
def _libraries() -> "ThreadpoolController":
    # At first use: threadpoolctl sets a variable of the environment, which an import of Walltime must not do. scipy's
    # own BLAS has to be loaded before the controller looks for libraries.
    import scipy.linalg  # noqa: F401, PLC0415
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    return ThreadpoolController()
