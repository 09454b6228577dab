"""Questions that are put at once are few, and none is answered by what was known before it was put."""

import asyncio

import pytest
from tidemill.activities.single_flight import SingleFlight


class Service:
    """Answers with how often it was asked, when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.lets = asyncio.Event()

    async def answer(self) -> int:
        self.asked += 1
        mine = self.asked
        await self.lets.wait()
        return mine

    async def fail(self) -> int:
        await self.answer()
        raise LookupError("it is gone")


async def test_those_who_ask_meanwhile_share_the_next() -> None:
    shared, service = SingleFlight(), Service()
    first = asyncio.create_task(shared.ask("key", service.answer))
    await asyncio.sleep(0)
    others = [asyncio.create_task(shared.ask("key", service.answer)) for _ in range(50)]
    apart = asyncio.create_task(shared.ask("other key", service.answer))
    await asyncio.sleep(0)
    service.lets.set()
    assert await asyncio.gather(first, apart, *others) == [1, 2, *[3] * 50]
    assert await shared.ask("key", service.answer) == 4


async def test_a_failure_is_told_to_all_who_share_and_nobody_else() -> None:
    shared, service = SingleFlight(), Service()
    service.lets.set()
    answers = await asyncio.gather(*(shared.ask("key", service.fail) for _ in range(5)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["it is gone"] * 5
    assert service.asked == 2
    assert await shared.ask("key", service.answer) == 3


async def test_who_gives_up_leaves_the_question_to_the_others() -> None:
    shared, service = SingleFlight(), Service()
    first, second, third = (asyncio.create_task(shared.ask("key", service.answer)) for _ in range(3))
    await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    service.lets.set()
    assert await third == 2
    with pytest.raises(asyncio.CancelledError):
        await first
