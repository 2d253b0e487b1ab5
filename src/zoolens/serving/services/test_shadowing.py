import asyncio
import time

import numpy as np

from zoolens.errors import ZoolensError
from zoolens.serving.services.shadowing import Question, Shadow

INPUTS = {"x": np.zeros((1, 4), np.float32)}


def question(done=lambda outputs: None, dropped=lambda: None, inputs=INPUTS):
    return Question(("model", "runtime"), inputs, done, dropped, time.monotonic())


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

    async def ask(rung, inputs):
        return None

    async def main():
        shadow = Shadow(ask, seed=0)
        for _ in range(100):
            shadow.offer(question(answered.append, lambda: dropped.append(1)))
        assert len(dropped) == 36
        large = {"x": np.zeros((1, 1 << 23), np.float64)}
        for _ in range(3):
            shadow.offer(question(answered.append, lambda: dropped.append(1), large))
        assert sum(question.bytes for question in shadow._buffer) <= 2 * (1 << 26)
        await shadow.close()

    asyncio.run(main())
    assert len(dropped) == 103
    assert answered == []


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
