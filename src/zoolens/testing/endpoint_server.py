"""A small server for tests of clients: what it answers is a function's, so that it can also lie, stall and babble."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Reply:
    """What is answered: a document, or bytes as they are. `pieces` come one after the other, without an end."""

    document: Any = None
    status: int = 200
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    pieces: Iterator[bytes] | None = None


Answer = Callable[[str, dict[str, Any], dict[str, str]], Reply]


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A server on a free port of this machine. `answer` takes path, document and headers of a request."""

    class Handler(_Handler):
        asked = staticmethod(answer)

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    asked: Answer

    def do_GET(self) -> None:
        self._reply({})

    def do_POST(self) -> None:
        self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def _reply(self, document: dict[str, Any]) -> None:
        reply = self.asked(self.path, document, dict(self.headers))
        content = json.dumps(reply.document).encode() if reply.content is None else reply.content
        try:
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.pieces is None:
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                return
            self.end_headers()
            for piece in reply.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # whoever asked has left, as tests want it to

    def log_message(self, *_: Any) -> None:
        """Nothing: a test's output is its own."""
