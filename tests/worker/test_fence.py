"""A worker that is cut off ends its tasks before they begin elsewhere: it is told through the store of results."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import eventually
from tidemill.activities.attempts.supervision import cut_off
from tidemill.worker.supervision.fence import MAX_LOOKS, Fence, FenceNotes, within_time

pytestmark = pytest.mark.faults

LOST_AFTER, GRACE = 0.3, 0.1
END_PAUSE = 1.5 * LOST_AFTER + GRACE


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    yield (tmp_path / "store").as_uri()
    cut_off.clear()


def fence(store: str, identity: str) -> Fence:
    return Fence(store, identity, LOST_AFTER, GRACE)


async def test_one_that_does_not_reach_temporal_goes_on_until_it_is_put_out(store: str) -> None:
    """As in an outage of the service, in which nobody is taken for lost."""
    first, second = fence(store, "first"), fence(store, "second")
    await first.heed(reaches_temporal=True)
    for _ in range(3):
        await first.heed(reaches_temporal=False)
        await asyncio.sleep(LOST_AFTER)
    assert not cut_off.is_set()
    assert await second.ended(["first"]) == []
    await first.heed(reaches_temporal=False)
    assert cut_off.is_set()
    await asyncio.sleep(END_PAUSE)
    assert await second.ended(["first"]) == ["first"]


async def test_one_that_reaches_temporal_again_works_again(store: str) -> None:
    first, second = fence(store, "first"), fence(store, "second")
    await first.heed(reaches_temporal=True)
    await second.ended(["first"])
    await first.heed(reaches_temporal=False)
    await first.heed(reaches_temporal=True)
    assert not cut_off.is_set()
    await second.ended([])
    await first.heed(reaches_temporal=False)
    assert not cut_off.is_set()


async def test_one_that_was_only_busy_is_let_in_again(store: str) -> None:
    """It has not noticed anything. In the next outage nobody has put it out."""
    first, second = fence(store, "first"), fence(store, "second")
    await first.heed(reaches_temporal=True)
    await second.ended(["first"])
    await asyncio.sleep(END_PAUSE)
    assert await second.ended([]) == []
    await first.heed(reaches_temporal=False)
    assert not cut_off.is_set()


async def test_one_that_looks_after_its_tasks_have_begun_elsewhere_ends_them(store: str) -> None:
    first, second = fence(store, "first"), fence(store, "second")
    await first.heed(reaches_temporal=True)
    await second.ended(["first"])
    await second.forget("first")
    assert await second.ended(["first"]) == []
    await first.heed(reaches_temporal=False)
    assert cut_off.is_set()


async def test_one_that_reaches_neither_ends_its_tasks_before_they_can_begin_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    first = fence((tmp_path / "store").as_uri(), "first")
    await first.heed(reaches_temporal=True)
    (tmp_path / "store" / "workers").rename(tmp_path / "away")
    (tmp_path / "store" / "workers").write_text("no folder")
    await first.heed(reaches_temporal=False)
    assert not cut_off.is_set()
    await asyncio.sleep(LOST_AFTER)
    await first.heed(reaches_temporal=False)
    assert cut_off.is_set()
    (tmp_path / "store" / "workers").unlink()
    (tmp_path / "away").rename(tmp_path / "store" / "workers")
    await first.heed(reaches_temporal=True)
    assert not cut_off.is_set()


async def test_one_that_reaches_temporal_works_though_its_store_is_away(tmp_path: Path) -> None:
    """Else each task that it takes up would be handed back, start by start."""
    first = fence((tmp_path / "store").as_uri(), "first")
    await first.heed(reaches_temporal=True)
    (tmp_path / "store").rename(tmp_path / "away")
    (tmp_path / "store").write_text("no folder")
    await first.heed(reaches_temporal=False)
    await asyncio.sleep(LOST_AFTER)
    await first.heed(reaches_temporal=False)
    assert cut_off.is_set()
    await first.heed(reaches_temporal=True)
    assert not cut_off.is_set()


async def test_a_store_that_hangs_takes_few_threads_and_no_time() -> None:
    over = threading.Event()

    def hang(_: str) -> bool:
        return over.wait()

    try:
        for _ in range(MAX_LOOKS + 3):
            with pytest.raises(TimeoutError):
                await within_time(hang, "first", 0.01)
        assert len([one for one in threading.enumerate() if one.name == "tidemill-fence"]) == MAX_LOOKS
    finally:
        over.set()

    async def answers() -> bool:
        with contextlib.suppress(TimeoutError):
            return await within_time(lambda _: True, "first", 5)
        return False

    assert await eventually(answers, bool)


async def test_one_with_another_store_is_left_to_its_heartbeats(store: str, tmp_path: Path) -> None:
    """It could not be told: as a worker of another team, which has a store of its own."""
    first, second = fence((tmp_path / "other").as_uri(), "first"), fence(store, "second")
    await first.heed(reaches_temporal=True)
    await second.ended(["first"])
    await asyncio.sleep(END_PAUSE)
    assert await second.ended(["first"]) == []


async def test_one_that_may_be_silent_for_longer_is_not_put_out(store: str) -> None:
    first, second = Fence(store, "first", 60, GRACE), fence(store, "second")
    await first.heed(reaches_temporal=True)
    await second.ended(["first"])
    await first.heed(reaches_temporal=False)
    assert not cut_off.is_set()


async def test_one_that_never_joined_is_not_ended(store: str) -> None:
    first = fence(store, "first")
    for _ in range(3):
        await first.heed(reaches_temporal=False)
        await asyncio.sleep(LOST_AFTER)
    assert not cut_off.is_set()


async def test_a_worker_that_stops_leaves_no_note(store: str, tmp_path: Path) -> None:
    first = fence(store, "first")
    await first.heed(reaches_temporal=True)
    assert not FenceNotes(store, LOST_AFTER).is_put_out("first")
    await first.leave()
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []
