"""The process that imports one framework and turns names or files into graphs: `python -m zoolens.graph.worker FD`.

One JSON request a line comes on standard input, one JSON answer a line goes to the descriptor FD; standard output is
left to the frameworks, which print there. A request names the importer ("module:attribute") and has the fields of
`Request`; the answer is {"graph": packed, base64} or {"error": sentence, "hint": sentence or null}. The graph is
canonical unless "raw" is asked for: that work, too, is done here, in parallel. With "weights", the values lie in a file
of the worker's temporary folder, and the answer says where in it.

It runs in environments that hold numpy and one framework: of zoolens, only `errors`, `graph` and `engine.wire` are
imported. It ends when its standard input does, even in the middle of a model.
"""

from __future__ import annotations

import base64
import importlib
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoolens.engine.wire import Arena, Channel, Layout, end_with_parent
from zoolens.errors import ModelError, ZoolensError
from zoolens.graph.importers.base import Importer, Request
from zoolens.graph.model import Graph, checked
from zoolens.graph.serialise import pack
from zoolens.runtimes.base import first_line

WEIGHTS = "weights"  # the file that values travel in
Message = dict[str, Any]


def main(settings: Mapping[str, Any], _began_ns: int = 0) -> None:
    """Serve until standard input ends. `answers`: the descriptor to write to."""
    answers = int(settings["answers"])
    reading = os.dup(sys.stdin.fileno())
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)  # a framework that asks a question gets no answer, and does not eat a request
    os.close(empty)
    os.set_inheritable(answers, False)
    threading.Thread(target=end_with_parent, args=(reading, os.getppid()), daemon=True).start()
    channel = Channel(reading, answers)
    try:
        while True:
            channel.send(answer(channel.receive()))
    except (EOFError, BrokenPipeError):
        os._exit(0)  # frameworks crash or hang in their exit handlers, and there is nothing left to save


def answer(request: Mapping[str, Any]) -> Message:
    try:
        graph = _read(_importer(request["importer"]), _request(request))
        wanted = graph if request.get("raw") else _canonical(graph)
        packed = base64.b64encode(pack(checked(wanted))).decode()
        return {"graph": packed, "weights": _written(wanted)} if request.get("weights") else {"graph": packed}
    except ZoolensError as error:
        return {"error": error.message, "hint": error.hint}
    except Exception as error:
        return {"error": _unexpected(error, str(request.get("subject"))), "hint": None}


def _written(graph: Graph) -> Layout:
    values = Arena(os.open(Path(tempfile.gettempdir()) / WEIGHTS, os.O_RDWR | os.O_CREAT, 0o600))
    try:
        return values.write(graph.weights)
    finally:
        values.close()


def _read(importer: Importer, request: Request) -> Graph:
    try:
        return importer.load(request)
    except SystemExit as error:  # a library that gives up must not take the other models with it
        raise ModelError(f"{request.subject} made its library exit with {error.code!r}.") from error


def _canonical(graph: Graph) -> Graph:
    from zoolens.graph.passes.canonical import canonical

    return canonical(graph)


def _importer(value: str) -> Importer:
    module, _, attribute = value.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, Importer):
        raise TypeError(f"{value} is no Importer")
    return found


def _request(message: Mapping[str, Any]) -> Request:
    size = message.get("size")
    return Request(
        message["subject"],
        size=(int(size[0]), int(size[1])) if size else None,
        arguments=message.get("arguments") or {},
        files=message.get("files") or {},
        weights=bool(message.get("weights")),
    )


def _unexpected(error: Exception, subject: str) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(frame.filename).name}:{frame.lineno}"
    return f"Reading {Path(subject).name} met an unexpected {type(error).__name__} at {place}: {first_line(error)}"


if __name__ == "__main__":
    main({"answers": sys.argv[1]})
