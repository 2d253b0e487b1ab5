"""Moto's server with a log: what was written is there again when the server was killed and is started once more.

Run by moto's own Python, without zoolens: `python kept_objects.py PORT LOG`. Moto keeps objects in memory. Here every
request that changed something is in the log before it is answered, and a new server repeats the log before it listens,
so that no client ever sees half of it. A request that was cut off by a kill was not answered, and is forgotten. Objects
that are uploaded in pieces (more than ten megabytes) are not kept: their upload would have another name.
"""

import base64
import io
import json
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

_CHANGING = ("PUT", "POST", "DELETE")
_WORDS = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE")

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Kept:
    """A WSGI application around another one, which repeats what the log says when it begins."""

    def __init__(self, application: Application, log: Path) -> None:
        self._application = application
        self._lock = threading.Lock()
        log.touch()
        whole = log.read_bytes()
        complete = whole[: whole.rfind(b"\n") + 1]
        for line in complete.splitlines():
            self._repeat(json.loads(line))
        log.write_bytes(complete)
        self._log = log.open("ab")

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        if environ["REQUEST_METHOD"] not in _CHANGING:
            yield from self._application(environ, start_response)
            return
        content = _content(environ)
        environ["wsgi.input"] = io.BytesIO(content)
        answered: list[Any] = []

        def remember(*answer: Any) -> Callable[[bytes], Any]:
            answered.append(answer)
            return lambda _: None

        with self._lock:
            body = b"".join(self._application(environ, remember))
            request = {name: value for name, value in environ.items() if name in _WORDS or name.startswith("HTTP_")}
            request["body"] = base64.b64encode(content).decode()
            self._log.write(json.dumps(request).encode() + b"\n")
            self._log.flush()
        start_response(*answered[-1])
        yield body

    def _repeat(self, request: dict[str, str]) -> None:
        from werkzeug.test import run_wsgi_app

        content = base64.b64decode(request.pop("body"))
        environ: dict[str, Any] = {
            **request,
            "CONTENT_LENGTH": str(len(content)),
            "SCRIPT_NAME": "",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "wsgi.url_scheme": "http",
            "wsgi.version": (1, 0),
            "wsgi.input": io.BytesIO(content),
            "wsgi.input_terminated": True,  # otherwise werkzeug takes a chunked body for an empty one
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        run_wsgi_app(self._application, environ, buffered=True)


def _content(environ: dict[str, Any]) -> bytes:
    length = environ.get("CONTENT_LENGTH")
    if not length and not environ.get("wsgi.input_terminated"):
        return b""
    content: bytes = environ["wsgi.input"].read(int(length) if length else -1)
    return content


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    port, log = int(sys.argv[1]), Path(sys.argv[2])
    application = Kept(DomainDispatcherApplication(create_backend_app), log)
    run_simple("127.0.0.1", port, application, threaded=True, request_handler=MotoRequestHandler)


if __name__ == "__main__":
    main()
