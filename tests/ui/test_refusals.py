"""What the real server refuses, asked by a socket: the application alone does not see everything of a request."""

import socket
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn")

EVIL = "Origin: http://evil.example"


def answered(url, *lines, body=b""):
    """The first line of the answer to a request of these lines, and everything that comes with it."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=20) as connection:
        connection.sendall("\r\n".join((*lines, "Connection: close", "", "")).encode() + body)
        answer = b""
        while chunk := connection.recv(1 << 16):
            answer += chunk
            if len(answer) > 1 << 20:
                break
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split(None, 2)[1]), head.decode("latin-1").lower(), content


def host(url):
    return f"Host: {urlsplit(url).netloc}"


UPGRADE = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==")


def test_a_websocket_is_never_opened(explorer):
    for path in ("/", "/api/v1/about", "/api/v1/jobs"):
        status, head, _ = answered(explorer, f"GET {path} HTTP/1.1", host(explorer), *UPGRADE)
        assert status != 101
        assert "sec-websocket-accept" not in head
    assert answered(explorer, "GET /api/v1/about HTTP/1.1", host(explorer), *UPGRADE, EVIL)[0] == 403


def test_a_name_that_points_here_is_refused_whoever_says_it(explorer):
    evil = "Host: evil.example"
    assert answered(explorer, "GET / HTTP/1.1", evil)[0] == 421
    assert answered(explorer, "GET http://evil.example/api/v1/about HTTP/1.1", evil)[0] == 421
    assert answered(explorer, "GET /api/v1/about HTTP/1.1", evil, "X-Forwarded-Host: localhost")[0] == 421
    assert answered(explorer, "GET /api/v1/about HTTP/1.1", evil, host(explorer))[0] in (400, 421)
    assert answered(explorer, "GET /api/v1/about HTTP/1.1", host(explorer))[0] == 200


@pytest.mark.parametrize(
    "path",
    ["/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc", "/./app.py", "//etc/passwd",
     "/api/v1/network/..%2f..%2fetc%2fpasswd", "/api/v1/model//etc/passwd", "/api/v1/jobs/..%2f..%2fstore/output",
     "/api/v1/jobs/../../store.sqlite", "/api/v1/live/examples/../../about", "/api/v1/audits/%2e%2e"],
)  # fmt: skip
def test_no_path_leads_out(explorer, path):
    status, _, content = answered(explorer, f"GET {path} HTTP/1.1", host(explorer))
    assert status in (400, 404)
    assert b"root:" not in content


def test_what_is_too_large_is_refused_before_it_is_read(explorer):
    lines = ("POST /api/v1/live?model=demo:lenet-torch HTTP/1.1", host(explorer))
    assert answered(explorer, *lines, f"Content-Length: {1 << 40}")[0] == 413
    chunk = b"%x\r\n%s\r\n" % (1 << 20, b"x" * (1 << 20))
    try:
        status = answered(explorer, *lines, "Transfer-Encoding: chunked", body=chunk * 40)[0]
    except (ConnectionError, BrokenPipeError):
        status = 413  # the server hung up in the middle
    assert status == 413
    assert answered(explorer, *lines, "Content-Length: nonsense")[0] == 400
    assert answered(explorer, f"GET /{'x' * (1 << 18)} HTTP/1.1", host(explorer))[0] in (400, 414)
