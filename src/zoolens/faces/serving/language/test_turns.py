"""Texts wait for their turn, get an instance of their own, and the one that knows their beginning."""

import asyncio

import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.language.turns import Turns


def nothing(place, text):
    return 0


def test_a_conversation_gets_the_instance_that_knows_its_beginning():
    computed = {0: [1, 2, 3], 1: [7, 8, 9]}

    def known(place, text):
        pairs = zip(computed[place], text, strict=False)
        return next((count for count, (one, other) in enumerate(pairs) if one != other), 3)

    async def run():
        turns = Turns(2, 10)
        for prompt, place in (([7, 8, 9, 4], 1), ([1, 2, 4, 5], 0), ([7, 1], 1)):
            async with turns.turn(prompt, 1, known) as found:
                assert found == place
                async with turns.turn(prompt, 1, known) as other:
                    assert other == 1 - place
        computed[1] = [0, 0, 0]  # its process was replaced, or answered something else
        async with turns.turn([1, 2], 1, known) as found:
            assert found == 0

    asyncio.run(run())


def test_texts_wait_in_their_order_and_not_for_ever():
    async def run():
        turns, order = Turns(1, 2), []

        async def write(number, seconds):
            async with turns.turn([number], seconds, nothing):
                order.append(number)
                await asyncio.sleep(0)

        async with turns.turn([0], 1, nothing):
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


def test_a_text_without_time_left_is_too_late_only_where_it_must_wait():
    async def run():
        turns = Turns(1, 2)
        async with turns.turn([0], 0.0, nothing):
            with pytest.raises(ServingError, match="wrote other texts for 0 s"):
                async with turns.turn([1], 0.0, nothing):
                    pass

    asyncio.run(run())
