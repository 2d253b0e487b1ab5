"""Texts wait for their turn, get an instance of their own, and the one that knows their beginning."""

import asyncio

import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.language.turns import Turns


def test_a_conversation_gets_the_instance_that_knows_its_beginning():
    async def run():
        turns = Turns(2, 10)
        async with turns.place([1, 2, 3], 1) as first, turns.place([7, 8], 1) as second:
            assert {first, second} == {0, 1}
        for prompt, place in (([7, 8, 9], second), ([1, 2, 4, 5], first), ([7, 1], second)):
            async with turns.place(prompt, 1) as found:
                assert found == place

    asyncio.run(run())


def test_texts_wait_in_their_order_and_not_for_ever():
    async def run():
        turns, order = Turns(1, 2), []

        async def write(number, seconds):
            async with turns.place([number], seconds):
                order.append(number)
                await asyncio.sleep(0)

        async with turns.place([0], 1):
            waiting = [asyncio.create_task(write(number, 30)) for number in (1, 2)]
            await asyncio.sleep(0)
            with pytest.raises(ServingError, match="As many texts wait") as refused:
                await write(3, 30)
            assert refused.value.refusal is Refusal.OVERLOADED
            waiting[0].cancel()
            await asyncio.sleep(0)
            with pytest.raises(ServingError, match=r"wrote other texts for 0\.01 s") as late:
                await write(4, 0.01)
            assert late.value.refusal is Refusal.TOO_LATE
        await asyncio.wait(waiting)
        assert order == [2]
        await write(5, 1)
        assert order == [2, 5]

    asyncio.run(run())
