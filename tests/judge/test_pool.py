"""Members of a pool: started when needed, replaced after a fault, kept after what is no fault of theirs."""

from dataclasses import dataclass

import pytest

from archer.judge.pool import Pool


@dataclass
class Worker:
    """Knows whether it was closed."""

    number: int
    closed: bool = False

    def close(self) -> None:
        self.closed = True


def test_members_are_started_only_when_all_others_are_taken() -> None:
    started: list[Worker] = []

    def start() -> Worker:
        started.append(Worker(len(started) + 1))
        return started[-1]

    first = Worker(0)
    pool = Pool(3, first, start)
    with pool.member() as one:
        assert one is first
    with pool.member() as one, pool.member() as other:
        assert (one, other) == (first, Worker(1))
    pool.close()
    assert len(started) == 1
    assert first.closed
    assert started[0].closed


def test_a_member_is_replaced_after_a_fault_and_kept_after_what_is_harmless() -> None:
    first = Worker(0)
    pool = Pool(1, first, lambda: Worker(1), harmless=(KeyError,))
    with pytest.raises(KeyError), pool.member():
        raise KeyError
    with pool.member() as one:
        assert one is first
    with pytest.raises(OSError, match="gone"), pool.member():
        raise OSError("gone")
    assert one.closed
    with pool.member() as one:
        assert one == Worker(1)


def test_who_cannot_be_started_leaves_its_place() -> None:
    refusals = [OSError("not now")]

    def start() -> Worker:
        if refusals:
            raise refusals.pop()
        return Worker(2)

    pool = Pool(1, Worker(0), start)
    with pytest.raises(RuntimeError), pool.member():
        raise RuntimeError
    with pytest.raises(OSError, match="not now"), pool.member():
        pass
    with pool.member() as one:
        assert one == Worker(2)
