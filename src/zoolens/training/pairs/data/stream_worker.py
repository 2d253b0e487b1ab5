"""The process that runs the user's data function and records what it gives.

{"do": "open"} calls the function; each {"do": "record"} records for about a second, so that a batch that never comes is
noticed; the last one writes the index. Prints go nowhere near the answers, which have a pipe of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from zoolens.base.engine.service import Message, Service
from zoolens.training.pairs.data.recording_steps import BatchRecording, RecordingPlan
from zoolens.training.pairs.data.returned_data import DataSource, sorted_data
from zoolens.training.pairs.data.stream_writer import BatchRecorder
from zoolens.training.pairs.sides.network_sides import InputShape
from zoolens.training.pairs.sides.user_code import call_user_function, user_errors

_AT_ONCE: Final = 1.0  # seconds of recording between two answers


def main(settings: Mapping[str, Any], began_ns: int) -> None:
    data = _Data()
    Service(settings, began_ns).serve(data.answer, doing)


def doing(request: Mapping[str, Any]) -> str:
    """The function's name for the request that opens the data, else that they are recorded."""
    if request.get("do") == "open":
        return f"Calling {Path(str(request.get('code'))).name}:{request.get('function')}"
    return "Recording the data"


class _Data:
    def __init__(self) -> None:
        self._code = ""
        self._about: tuple[str, str | None] = "", None
        self._recorder: BatchRecorder
        self._recording: BatchRecording
        self._steps: Iterator[None]

    def answer(self, request: Message) -> Any:
        if request["do"] == "open":
            return self._open(request)
        return self._record() if request["do"] == "record" else {}

    def _open(self, request: Message) -> Any:
        self._code = str(request["code"])
        self._about = str(request["source"]), request["digest"]
        inputs = [InputShape(tuple(shape), kind) for shape, kind in request["inputs"]]
        self._recorder = BatchRecorder(
            Path(str(request["folder"])), inputs, order=request["order"], limit=int(request["limit"])
        )
        with user_errors(self._code):
            source = sorted_data(lambda: call_user_function(self._code, str(request["function"])))
        if request["test"] is not None:
            code, function = request["test"]
            with user_errors(code):
                held_out = sorted_data(lambda: call_user_function(code, function), held_out=True)
            source = DataSource(source.train, held_out.train)
        self._recording = BatchRecording(self._recorder, source, RecordingPlan(**request["plan"]))
        self._steps = self._recording.steps()
        return {}

    def _record(self) -> Any:
        until = time.monotonic() + _AT_ONCE
        batches = 0
        with user_errors(self._code):
            for _ in self._steps:
                batches += 1
                if time.monotonic() > until:
                    return {"batches": batches, "finished": False}
        self._recording.finish(*self._about)
        return {"batches": batches, "finished": True}
