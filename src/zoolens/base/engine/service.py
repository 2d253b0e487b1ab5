"""The worker's side of a worker process: requests come, progress and answers go, and it ends when its parent does.

It runs in environments that hold numpy and one framework, so of zoolens only `errors`, `untrusted` and this room's
`faults` and `wire` are imported. Messages travel over inherited pipe ends, never over standard output, where frameworks
print. A request is any JSON object. Its answer is {"ok": plain data} or {"error": description}; any number of
{"progress": plain data} may come before. The request {"do": "close"} is the last one.

A request {"do": "run", …} comes many times in the same words: it is parsed once, and whoever answers it does
not modify it. An answer may be JSON that is encoded already, as bytes.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from zoolens.base.engine.faults import describe
from zoolens.base.engine.wire import Arena, Channel, decoded

_PARENT_CHECK_MS: Final = 2000

Message = dict[str, Any]


class Service:
    """One worker's connection to its parent. `inputs` are tensors that the parent writes, `outputs` those it reads."""

    def __init__(self, settings: Mapping[str, Any], began_ns: int) -> None:
        """`began_ns`: CLOCK_MONOTONIC at the first line of this process."""
        reading, writing, inputs, outputs = settings["descriptors"]
        for descriptor in (reading, writing, inputs, outputs):
            # A process that the framework starts must not keep our pipes open.
            os.set_inheritable(descriptor, False)
        self.inputs, self.outputs = Arena(inputs), Arena(outputs)
        self.began_ns = began_ns
        self.start_seconds = (began_ns - settings["spawned_ns"]) / 1e9
        self.sandbox: str | None = settings.get("confined")
        self._channel = Channel(reading, writing)
        # A thread of its own: the main thread may be inside a framework for minutes.
        threading.Thread(target=_end_with_parent, args=(reading, settings["parent"]), daemon=True).start()

    def report(self, progress: Any) -> None:
        """Tell the parent, in plain data, how far the current request is."""
        self._channel.send({"progress": progress})

    def serve_named(self, answers: Mapping[str, Callable[[Message], Any]], doing: Callable[[Message], str]) -> NoReturn:
        """Answers each request by what it asks to do; others, such as to close, with nothing."""
        self.serve(lambda request: answers[request["do"]](request) if request["do"] in answers else None, doing)

    def serve(self, answer: Callable[[Message], Any], doing: Callable[[Message], str]) -> NoReturn:
        """Answers requests until the parent closes; `doing` describes a request in unexpected errors."""
        repeated: tuple[bytes, Message] = b"", {}
        # The last answer that came as bytes, and its message.
        sent: tuple[bytes, bytes] = b"", b""
        own = os.getpid()
        with contextlib.suppress(EOFError, BrokenPipeError):
            while True:
                line = self._channel.receive_line()
                request = repeated[1] if line == repeated[0] else decoded(line)
                if request.get("do") == "run":
                    repeated = line, request
                message = response(request, answer, doing)
                # A child that the code forked: the answer is its parent's to give.
                if os.getpid() != own:
                    os._exit(1)
                content = message.get("ok")
                if isinstance(content, bytes):
                    if content is not sent[0]:
                        sent = content, b'{"ok":' + content + b"}\n"
                    self._channel.send_line(sent[1])
                else:
                    self._channel.send(message)
                if request.get("do") == "close":
                    break
        # Frameworks crash or hang in their exit handlers, and there is nothing left to save.
        os._exit(0)


def response(request: Message, answer: Callable[[Message], Any], doing: Callable[[Message], str]) -> Message:
    """The message that answers a request. A library that exits must not take the next requests with it."""
    try:
        return {"ok": answer(request)}
    except (Exception, SystemExit) as error:
        return {"error": describe(error, doing(request))}


def _end_with_parent(reading: int, parent: int) -> None:
    """Sleep until the parent hangs up or dies, even in the middle of long work; then end our group, with whatever the
    framework has started."""
    poll = select.poll()
    # No event of interest but the hang-up, which is always reported.
    poll.register(reading, 0)
    # A process forked from the parent may hold the other end open: look at our parent now and then as well.
    while not poll.poll(_PARENT_CHECK_MS) and os.getppid() == parent:
        pass
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
