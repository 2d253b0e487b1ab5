"""Ten thousand malformed requests: no 500, the server stays up, and its memory and descriptors are where they were."""

import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import numpy as np
import psutil
import pytest

from zoolens.base.protocol.grpc_messages import request_to_protobuf
from zoolens.base.protocol.messages import InferRequest, RequestedOutput
from zoolens.base.protocol.protobuf import INFERENCE
from zoolens.base.protocol.rest import HEADER_LENGTH, encode_request
from zoolens.faces.serving.conftest import write_fake
from zoolens.faces.serving.transports.header_blocks import encode_headers
from zoolens.faces.serving.transports.http2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME,
    GOAWAY,
    GREETING,
    HEADERS,
    SETTINGS,
    frame,
)

pytestmark = pytest.mark.slow
pytest.importorskip("uvicorn")

FRAMED = 9000
CALLS = 2000
START = GREETING + frame(SETTINGS, 0, 0)
EXAMPLES = 50  # for each operation and mode of generation: 25 operations
GROWTH = 24 << 20  # bytes: what allocators keep, far below what 10,000 bodies would leave
X = np.random.default_rng(0).random((2, 4), np.float32)


@pytest.fixture
def server(tmp_path):
    """Its process and its URLs: of REST, and of gRPC."""
    model = write_fake(tmp_path, "tiny")
    process = subprocess.Popen(
        [sys.executable, "-m", "zoolens", "serve", model, "--http", "0", "--grpc", "0", "--max-request", "1 MB"],
        env={**os.environ, "ZOOLENS_HOME": str(tmp_path / "home")},
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
    )
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        urls = re.search(r"http://[\d.:]+", lines[1])[0], re.search(r"grpc://[\d.:]+", lines[2])[0]
        yield psutil.Process(process.pid), *urls
        assert process.poll() is None, "the server has died"
        assert "Traceback" not in (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()


def spoilt(rng):
    """A request with something wrong in it: its JSON, its framing, its headers or its path."""
    request = InferRequest(
        "tiny",
        {"input": X.astype(rng.choice(["float32", "float64", "int8", "bool"]))},
        outputs=(RequestedOutput("logits", rng.choice([0, 0, 2]), rng.random() < 0.5),),
    )
    body = encode_request(request, binary=rng.random() < 0.7)
    content, headers = bytearray(body.content()), dict(body.headers)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1)
        change = rng.randrange(5)
        if change == 0:
            del content[place : place + rng.randint(1, 20)]
        elif change == 1:
            content[place:place] = rng.randbytes(rng.randint(1, 20))
        elif change == 2 and place < len(content):
            content[place] ^= 1 << rng.randrange(8)
        elif change == 3:
            content[place : place + 3] = rng.choice([b"-1", b"1e9", b"null", b"[[", b'"', b"NaN", b"\\ud800", b"{}"])
        else:
            content[place:place] = content[: rng.randrange(200)]
    if rng.random() < 0.3:
        headers[HEADER_LENGTH] = rng.choice(["0", "-1", "x", "99999999999999999999", str(len(content)), "5"])
    if rng.random() < 0.1:
        headers["Content-Encoding"] = rng.choice(["gzip", "deflate", "br", ""])
    path = rng.choice(["/v2/models/tiny/infer"] * 8 + ["/v2/models/%ff/infer", "/v2/models//infer"])
    return "POST", path, bytes(content), headers


def answers(url, requests):
    """The statuses of all answers; each error is one sentence in JSON."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    statuses = Counter()
    for method, path, body, headers in requests:
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read()
        except (http.client.HTTPException, OSError):
            connection.close()
            statuses["closed"] += 1
            continue
        statuses[response.status] += 1
        if response.status >= 400:
            assert json.loads(content)["error"], (path, body, headers)
        assert response.status not in (500, 503), (content, path, body, headers)
    connection.close()
    return statuses


def resources(process):
    return process.memory_info().rss, process.num_fds()


def test_malformed_requests_leave_nothing_behind(server):
    process, url, _ = server
    rng = random.Random(1)
    answers(url, (spoilt(rng) for _ in range(500)))
    generated(url, 5)
    before = resources(process)
    framed = answers(url, (spoilt(rng) for _ in range(FRAMED)))
    described = generated(url, EXAMPLES)
    after = resources(process)
    print(
        f"framing: {dict(framed)}; from the OpenAPI description: {dict(described)}; memory and files: {before} {after}"
    )
    assert framed["closed"] < FRAMED / 100
    assert sum(framed.values()) + sum(described.values()) >= 10_000
    assert after[0] - before[0] < GROWTH
    assert after[1] <= before[1] + 2
    assert answers(url, [("GET", "/v2/health/ready", None, {})]) == {200: 1}


def test_malformed_calls_leave_nothing_behind(server):
    """Frames of HTTP/2 and messages of gRPC that are spoilt, several calls to a connection."""
    process, url, grpc_url = server
    rng = random.Random(1)
    asked = [call(number) for number in (1, 3, 5)]
    send(grpc_url, (spoilt_frames(rng, asked) for _ in range(300)))
    before = resources(process)
    ended = send(grpc_url, (spoilt_frames(rng, asked) for _ in range(CALLS)))
    after = resources(process)
    print(f"connections: {dict(ended)}; memory and files: {before} {after}")
    assert ended["answered"] > CALLS / 20
    assert ended["ended"] > CALLS / 20
    assert after[0] - before[0] < GROWTH
    assert after[1] <= before[1] + 2
    assert send(grpc_url, [START + b"".join(asked)], patience=10) == {"answered": 1}
    assert answers(url, [("GET", "/v2/health/ready", None, {})]) == {200: 1}


def call(number):
    """The frames of one call."""
    content = request_to_protobuf(InferRequest("tiny", {"input": X})).SerializeToString()
    headers = {":method": "POST", ":path": f"/{INFERENCE}/ModelInfer", "content-type": "application/grpc"}
    message = b"\0" + len(content).to_bytes(4, "big") + content
    head = frame(HEADERS, END_HEADERS, number, encode_headers(headers.items()))
    return head + frame(DATA, END_STREAM, number, message)


def spoilt_frames(rng, asked):
    content = bytearray(START + b"".join(asked[: rng.randint(1, 3)]))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(GREETING) if rng.random() < 0.9 else 0, len(content))
        change = rng.randrange(4)
        if change == 0:
            del content[place : place + rng.randint(1, 30)]
        elif change == 1:
            content[place:place] = rng.randbytes(rng.randint(1, 30))
        elif change == 2:
            content[place] ^= 1 << rng.randrange(8)
        else:
            content[place : place + 9] = FRAME.pack(0, rng.randrange(40), rng.randrange(12), rng.randrange(256), 1)
    return bytes(content)


def send(url, contents, patience=0.05):
    """What becomes of connections on which this is sent: the server answers, ends it, or waits for more."""
    address = urlsplit(url)
    found = Counter()
    for content in contents:
        with socket.create_connection((address.hostname, address.port), timeout=patience) as connection:
            received = b""
            # It may end the connection before it has read everything, and wait for what does not come.
            with suppress(OSError):
                connection.sendall(content)
                while kinds_of(received).isdisjoint((DATA, GOAWAY)) and (piece := connection.recv(1 << 16)):
                    received += piece
        kinds = kinds_of(received)
        found["answered" if DATA in kinds else "ended" if GOAWAY in kinds else "neither"] += 1
    return found


def kinds_of(received):
    place, kinds = 0, set()
    while place + FRAME.size <= len(received):
        high, low, kind, _, _ = FRAME.unpack_from(received, place)
        kinds.add(kind)
        place += FRAME.size + (high << 16 | low)
    return kinds


def generated(url, examples):
    """The statuses of requests that schemathesis makes from the server's own description, right and wrong ones."""
    schemathesis = pytest.importorskip("schemathesis")  # not above: it takes a second to import
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.errors import Unsatisfiable
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    statuses = Counter()
    rules = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for found in schema.get_all_operations():
        operation = found.ok()

        def check(case):
            known = sum(statuses.values()) % 2 and "repository" not in case.path  # or `tiny` would be unloaded
            if case.path_parameters and known:
                case.path_parameters["model"] = "tiny"
            response = case.call()
            statuses[response.status_code] += 1
            assert response.status_code not in (500, 503), (case.as_curl_command(), response.text)

        for mode in GenerationMode:
            with suppress(Unsatisfiable):  # nothing can be wrong about a request without parameters
                rules(given(operation.as_strategy(generation_mode=mode))(check))()
    return statuses
