"""Texts wait for their turn, get an instance of their own, and the one that knows their beginning."""

import asyncio

import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.language.turns import Turns


def test_a_conversation_gets_the_instance_that_knows_its_beginning():
    async def run():
        turns, text = Turns(2, 10), [7, 8]
        async with turns.turn([1, 2, 3], 1) as first, turns.turn(text, 1) as second:
            assert {first.place, second.place} == {0, 1}
            assert first.known == second.known == 0
            text.append(9)  # what was written belongs to it
        for prompt, turn, known in (([7, 8, 9, 4], second, 3), ([1, 2, 4, 5], first, 2), ([7, 1], second, 1)):
            async with turns.turn(prompt, 1) as found:
                assert (found.place, found.known) == (turn.place, known)

    asyncio.run(run())


def test_texts_wait_in_their_order_and_not_for_ever():
    async def run():
        turns, order = Turns(1, 2), []

        async def write(number, seconds):
            async with turns.turn([number], seconds):
                order.append(number)
                await asyncio.sleep(0)

        async with turns.turn([0], 1):
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
