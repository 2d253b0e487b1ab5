"""The trace extension."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from zoolens.base.protocol.errors import Refusal, ServingError
from zoolens.faces.serving.plane.data_plane import open_plane
from zoolens.faces.serving.plane.test_faults import request


def test_every_second_request_is_traced_until_enough_are(fake_model, caplog):
    caplog.set_level(logging.INFO, "zoolens.serving.trace")

    async def serve():
        async with open_plane([fake_model()]) as plane:
            await plane.infer(request())
            told = plane.change_trace_settings("tiny", {"trace_level": ["TIMESTAMPS"], "trace_rate": "2"})
            assert (told["trace_level"], told["trace_rate"]) == (["TIMESTAMPS"], "2")
            plane.change_trace_settings("tiny", {"trace_count": "2"})
            for number in range(8):
                await plane.infer(request(id=str(number), traceparent="00-1-2-01"))
            assert plane.trace_settings("tiny")["trace_count"] == "0"
            assert plane.trace_settings()["trace_level"] == ["OFF"]
            assert plane.change_trace_settings("tiny", {"trace_level": None})["trace_level"] == ["OFF"]

    asyncio.run(serve())
    traces = [json.loads(record.getMessage()) for record in caplog.records if record.name == "zoolens.serving.trace"]
    assert [(trace["request_id"], trace["traceparent"]) for trace in traces] == [("1", "00-1-2-01"), ("3", "00-1-2-01")]
    for trace in traces:
        times = [timestamp["ns"] for timestamp in trace["timestamps"]]
        assert times == sorted(times)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"trace_level": ["TENSORS"]}, Refusal.UNSUPPORTED),
        ({"trace_level": 3}, Refusal.INVALID),
        ({"trace_rate": "0"}, Refusal.INVALID),
        ({"trace_rate": "many"}, Refusal.INVALID),
        ({"trace_file": "/etc/passwd"}, Refusal.INVALID),
        ({"trace_colour": "red"}, Refusal.INVALID),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, refusal):
    async def serve():
        async with open_plane() as plane:
            with pytest.raises(ServingError) as error:
                plane.change_trace_settings("", settings)
            assert error.value.refusal is refusal
            assert plane.trace_settings()["trace_level"] == ["OFF"]

    asyncio.run(serve())
