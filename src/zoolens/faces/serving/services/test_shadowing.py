import asyncio
import random
import time
from dataclasses import dataclass

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.faces.serving.services.shadowing import Question, Shadow

INPUTS = {"x": np.zeros((1, 4), np.float32)}


@dataclass(eq=False)
class Sample:
    share: float = 1.0

    def halve(self):
        possible = self.share > 0.25
        self.share /= 2 if possible else 1
        return possible


def question(done=lambda outputs: None, dropped=lambda: None, inputs=INPUTS, sample=None, ticket=0.0):
    return Question(("model", "runtime"), inputs, done, dropped, time.monotonic(), sample or Sample(), ticket)


def test_questions_wait_until_the_service_is_idle_and_none_is_lost():
    busy, answered, dropped = [True], [], []

    async def ask(rung, inputs):
        return None if busy[0] else inputs

    async def main():
        shadow = Shadow(ask, seed=0)
        for _ in range(20):
            shadow.offer(question(answered.append, lambda: dropped.append(1)))
        await asyncio.sleep(0.05)
        assert answered == []
        busy[0] = False
        await shadow.idle()
        await shadow.close()

    asyncio.run(main())
    assert (len(answered), len(dropped)) == (20, 0)


def test_what_does_not_fit_is_dropped_and_counted():
    answered, dropped = [], []
    sample = Sample()

    async def ask(rung, inputs):
        return None

    async def main():
        shadow = Shadow(ask, seed=0)
        for _ in range(300):
            shadow.offer(question(answered.append, lambda: dropped.append(1), sample=sample))
        assert len(dropped) == 300 - 256  # with the smallest tickets, which no halving removes
        large = {"x": np.zeros((1, 1 << 23), np.float64)}
        for _ in range(3):
            shadow.offer(question(answered.append, lambda: dropped.append(1), large))
        assert sum(question.bytes for question in shadow._buffer) <= 2 * (1 << 26)
        await shadow.close()

    asyncio.run(main())
    assert len(dropped) == 303
    assert answered == []


def test_under_load_every_request_is_as_likely_to_be_asked_as_before():
    """A burst that the buffer cannot hold: the ones that are left have tickets below the share, whenever they came."""
    busy, asked, dropped, sample = [True], [], [], Sample()
    chance = random.Random(1)

    async def ask(rung, inputs):
        return None if busy[0] else inputs

    async def main():
        shadow = Shadow(ask, seed=0)
        for number in range(600):
            done = lambda outputs, number=number: asked.append(number)  # noqa: E731
            shadow.offer(question(done, lambda: dropped.append(1), sample=sample, ticket=chance.random()))
        busy[0] = False
        await asyncio.wait_for(shadow.idle(), 10)
        await shadow.close()

    asyncio.run(main())
    assert sample.share == 0.25
    assert len(asked) + len(dropped) == 600
    early = sum(number < 300 for number in asked)
    assert 0.4 < early / len(asked) < 0.6
    assert 100 < len(asked) < 200


def test_a_question_on_which_the_model_fails_is_not_asked_again():
    """Asked again and again, it would end the worker until the model is given up."""
    asked, answered, dropped = [], [], []

    async def ask(rung, inputs):
        asked.append(rung)
        if len(asked) == 1:
            raise ZoolensError("The worker ended.")
        return inputs

    def fail(outputs):
        raise RuntimeError("it cannot be read")

    async def main():
        shadow = Shadow(ask, seed=0)
        for done in (answered.append, fail, answered.append):
            shadow.offer(question(done, lambda: dropped.append(1)))
        await asyncio.wait_for(shadow.idle(), 10)
        await shadow.close()

    asyncio.run(main())
    assert (len(asked), len(answered), len(dropped)) == (3, 1, 2)
