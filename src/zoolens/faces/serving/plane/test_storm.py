"""Minutes of faults at random: workers killed, clients that go away, deadlines, models that fail, loads and limits."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from zoolens.base.protocol.errors import ServingError
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.plane_settings import EndpointSettings
from zoolens.faces.serving.plane.test_faults import EXIT, FAIL, HANG, NAN, request

SECONDS = float(os.environ.get("ZOOLENS_STORM_SECONDS", "60"))


class Storm:
    """Clients and accidents. `outcomes` counts what requests got; `wrong` has whatever was no clear answer."""

    def __init__(self, plane, seed):
        self.plane = plane
        self.random = random.Random(seed)
        self.outcomes = Counter()
        self.wrong = []
        self.until = time.monotonic() + SECONDS

    async def client(self):
        while time.monotonic() < self.until:
            first = self.random.choices([1, FAIL, NAN, HANG, EXIT], [1000, 20, 20, 1, 2])[0]
            deadline = self.random.choice([None, None, 0.005, 0.5])
            asked = asyncio.ensure_future(self.plane.infer(request(first, deadline=deadline)))
            if self.random.random() < 0.02:
                await asyncio.sleep(self.random.random() * 0.01)
                asked.cancel()
            done, _ = await asyncio.wait([asked], timeout=30)
            if not done:
                self.wrong.append("no answer in 30 s")
            elif asked.cancelled():
                self.outcomes["cancelled"] += 1
            elif isinstance(error := asked.exception(), ServingError):
                self.outcomes[error.refusal.name] += 1
            elif error is not None:
                self.wrong.append(repr(error))
            elif (first == NAN) != ("zoolens_nan_outputs" in asked.result().parameters):
                self.wrong.append("not a number, or one, and it says otherwise")
            else:
                self.outcomes["answered"] += 1

    async def accidents(self):
        while time.monotonic() < self.until:
            await asyncio.sleep(self.random.random())
            model = self.plane.endpoint("tiny").reference.model
            kind = self.random.choice(["kill", "kill", "load", "measure"])
            if kind == "kill" and model is not None:
                process_id = self.random.choice(model.instances).process_id
                if process_id is not None:
                    os.kill(process_id, signal.SIGKILL)
            elif kind == "load":
                await self.plane.load("tiny", {})
            self.outcomes[kind] += 1


@pytest.mark.slow
def test_a_storm_of_faults_leaves_no_request_without_a_clear_answer_and_nothing_behind(fake_model):
    path = fake_model(behaviour="faulty")

    async def serve():
        process = psutil.Process()
        settings = EndpointSettings(concurrency=2, call_limit=0.5, max_batch=8, max_queue=50)
        async with open_plane([path], settings) as plane:
            memory, files = [], []
            for seed in range(2):  # what the first round leaves behind is the baseline of the second
                storm = Storm(plane, seed)
                await asyncio.gather(storm.accidents(), *(storm.client() for _ in range(40)))
                assert storm.wrong == []
                assert storm.outcomes["answered"] > 1000, storm.outcomes
                print(dict(storm.outcomes))
                await plane.load("tiny", {})
                assert (await plane.infer(request())).outputs
                endpoint = plane.endpoint("tiny")
                assert (endpoint.queue.requests, endpoint.queue.bytes, endpoint.running) == (0, 0, 0)
                await asyncio.sleep(1)
                gc.collect()
                memory.append(process.memory_info().rss)
                files.append(len(list(Path("/proc/self/fd").iterdir())))
                print(f"{memory[-1] / 1e6:.0f} MB, {files[-1]} files, {len(process.children(recursive=True))} workers")
            assert files[1] <= files[0] + 2
            assert memory[1] < memory[0] + 20e6
            workers = {instance.process_id for instance in plane.endpoint("tiny").reference.model.instances}
            assert {child.pid for child in process.children() if child.name() != "sh"} == workers  # sh sweeps up

    asyncio.run(serve())
