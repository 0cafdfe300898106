"""Items that are computed ahead come in order, and an error comes where its item would have come."""

import threading
from collections.abc import Iterator

import pytest

from pipeline.core.workers import ahead, using_threads


def counted(n: int, seen: list[str], fails_at: int = -1) -> Iterator[int]:
    for number in range(n):
        if number == fails_at:
            raise ValueError("the third")
        seen.append(threading.current_thread().name)
        yield number


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("n_items", [0, 1, 7])
def test_the_items_are_the_same_in_order(n_threads: int, n_items: int) -> None:
    seen: list[str] = []
    with using_threads(n_threads):
        assert list(ahead(counted(n_items, seen))) == list(range(n_items))
    is_other = [name != threading.current_thread().name for name in seen]
    assert is_other == [n_threads == 2] * n_items


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_comes_after_the_items_before_it(n_threads: int) -> None:
    found = []
    with using_threads(n_threads), pytest.raises(ValueError, match="the third"):
        for item in ahead(counted(5, [], fails_at=3)):
            found.append(item)
    assert found == [0, 1, 2]


def test_one_item_more_is_computed_and_not_all() -> None:
    seen: list[str] = []
    with using_threads(2):
        items = ahead(counted(100, seen))
        assert next(items) == 0
        items.close()
    assert len(seen) <= 2


def test_threads_inside_the_items_are_those_of_the_run() -> None:
    def inner() -> Iterator[int]:
        yield from ahead(iter([1, 2]))

    with using_threads(2):
        assert list(ahead(inner())) == [1, 2]
