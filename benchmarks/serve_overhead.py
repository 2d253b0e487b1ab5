"""What the server adds to a call of the runtime: REST and gRPC from another process, beside the same model in-process.

    python benchmarks/serve_overhead.py [--rounds 7] [--calls 300] [--settle 0.2]

Batch 1, one request at a time. Rounds of the ways take turns, so that other load on the machine hits all alike; the
overhead of a round is the difference of its percentiles, and the median over the rounds counts. Before its turn a way
is called for `--settle` seconds that do not count. Without that a turn would also measure the turn before it: the model
in this process keeps all cores busy, and the first requests after it take some 0.1 ms longer than all others, probably
because client, server and worker are put on one core until the machine has calmed down. In "REST" and "gRPC"
requests are bytes before they are sent and answers stay bytes, because what a client computes is not the server's;
REST is then asked over a plain socket, gRPC by Python's own client; "gRPC, socket" is the same call over a plain one.
"REST, arrays" is what a program sees that has numpy arrays before and after, over `http.client` of the standard
library. "bare gRPC" is a server of Python's gRPC package that throws the request away and answers at once: what that
package takes itself, on both sides.

Payloads: a small network with inputs of 3 kB, and models that answer at once with inputs of 600 kB and 6 MB.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count, repeat
from pathlib import Path
from typing import Any

import numpy as np

import zoolens
from served import MISSED, serving
from zoolens.base.protocol.address import parse_address
from zoolens.base.protocol.client import open_client
from zoolens.base.protocol.grpc_client import OPTIONS
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.protocol.protobuf import INFERENCE, methods
from zoolens.faces.load.http_transport import HttpTransport
from zoolens.faces.serving.transports.header_blocks import encode_headers
from zoolens.faces.serving.transports.http2_frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_FRAME,
    GREETING,
    HEADERS,
    NUMBER,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)

GOAL = 0.5e-3  # seconds that REST adds at the 90th percentile, of the small network
GRPC_GOAL = 1.3  # times a bare echo, that a call of the small network takes over gRPC, at p50 and p90
RUNTIME = "onnxruntime"
SMALL = "demo:lenet-wide"
LARGE = {"600 kB": 3, "6 MB": 30}  # planes of 224 × 224 float32 values
MANIFEST = """\
zoolens: 1
name: {name}
inputs: [{{modality: array, shape: [null, {planes}, 224, 224], layout: NCHW}}]
outputs: [{{labels: [a, b, c]}}]
assets: [{{format: fake, files: [{{location: {name}.json}}]}}]
"""

LENGTH = re.compile(rb"(?im)^content-length: *(\d+)(?=\r|$)")
BARE = """
import asyncio
import grpc.aio
class Handlers(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(answer)
async def answer(content, context):
    return bytes({size})
async def main():
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Handlers(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()
try:
    from uvloop import run
except ImportError:
    from asyncio import run
run(main())
"""

Call = Callable[[], object]


def write_model(folder: Path, name: str, planes: int) -> str:
    """A model that answers at once, whatever it is given."""
    (folder / f"{name}.json").write_text(
        json.dumps({"classes": 3, "input": [planes, 224, 224], "behaviour": "constant"})
    )
    path = folder / f"{name}.yaml"
    path.write_text(MANIFEST.format(name=name, planes=planes))
    return str(path)


def in_process(model: str, runtime: str, feeds: dict[str, Any]) -> Call:
    with zoolens.trusting():
        session = zoolens.open_session(model, runtime=runtime)
    return lambda: session.predict(feeds)


def over_rest(url: str, request: InferRequest) -> Call:
    """Bytes over a socket, and as many back as the answer has."""
    address = parse_address(url)
    content = b"".join(HttpTransport(address, "", binary=True).encode(request))
    connection = socket.create_connection((address.host, address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(1 << 16)

    def call() -> None:
        connection.sendall(content)
        received = connection.recv_into(buffer)
        assert buffer.startswith(b"HTTP/1.1 200"), buffer[:received]
        end = buffer.index(b"\r\n\r\n", 0, received)  # the head comes in one piece
        missing = int(LENGTH.search(buffer, 0, end)[1]) - (received - end - 4)
        while missing > 0:
            missing -= connection.recv_into(buffer)

    return call


def with_arrays(url: str, request: InferRequest) -> Call:
    client = open_client(parse_address(url))
    return lambda: client.infer(request)


def over_grpc(target: str, request: InferRequest) -> Call:
    import grpc

    from zoolens.base.protocol.grpc_messages import request_to_protobuf

    channel = grpc.insecure_channel(target, options=OPTIONS)
    ask = channel.unary_unary(methods(INFERENCE)["ModelInfer"].path)
    content = request_to_protobuf(request).SerializeToString()
    return lambda: ask(content)


def over_http2(target: str, request: InferRequest) -> Call:
    """The same call over a plain socket: what of it is the server's, and not that of Python's gRPC client."""
    from zoolens.base.protocol.grpc_messages import request_to_protobuf

    host, _, port = target.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message = request_to_protobuf(request).SerializeToString()
    headers = {":method": "POST", ":path": methods(INFERENCE)["ModelInfer"].path, "content-type": "application/grpc"}
    block = encode_headers(headers.items())
    content = b"\0" + len(message).to_bytes(4, "big") + message
    pieces = [content[start : start + FIRST_FRAME] for start in range(0, len(content), FIRST_FRAME)]
    window = frame(WINDOW_UPDATE, 0, 0, NUMBER.pack(1 << 30))
    # The first block says that its sender keeps no table of headers, as Python's client does once it is told so.
    connection.sendall(GREETING + frame(SETTINGS, 0, 0) + window)
    numbers, blocks = count(1, 2), chain([b"\x20" + block], repeat(block))

    def call() -> None:
        number = next(numbers)
        sent = [frame(HEADERS, END_HEADERS, number, next(blocks))]
        sent += [frame(DATA, 0, number, piece) for piece in pieces[:-1]]
        connection.sendall(b"".join((*sent, frame(DATA, END_STREAM, number, pieces[-1]))))
        received = b""
        while b"grpc-status" not in received:
            received += connection.recv(1 << 16)
        assert received.endswith(b"\x0bgrpc-status\x010"), received

    return call


@contextmanager
def bare_grpc(size: int) -> Iterator[str]:
    """Where a gRPC server answers every call with so many bytes."""
    process = subprocess.Popen([sys.executable, "-c", BARE.format(size=size)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


def timed(call: Call, calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def settle(call: Call, seconds: float) -> None:
    """Call as long as this machine needs to get used to it."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        call()


def compare(ways: dict[str, Call], rounds: int, calls: int, seconds: float) -> dict[str, dict[str, float]]:
    """For each way and percentile the median over the rounds; also what it adds to the first, and how many times a bare
    echo over gRPC it takes."""
    by_round: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for call in ways.values():
        timed(call, max(20, calls // 5))
    for _ in range(rounds):
        for name, call in ways.items():
            settle(call, seconds)
            times = timed(call, calls)
            by_round[name].append((float(np.quantile(times, 0.5)), float(np.quantile(times, 0.9))))
    first = next(iter(ways))
    bare = by_round["bare gRPC"]
    return {
        name: {
            "p50": statistics.median(row[0] for row in rows),
            "p90": statistics.median(row[1] for row in rows),
            "added_p50": statistics.median(row[0] - base[0] for row, base in zip(rows, by_round[first], strict=True)),
            "added_p90": statistics.median(row[1] - base[1] for row, base in zip(rows, by_round[first], strict=True)),
            "of_bare_p50": statistics.median(row[0] / echo[0] for row, echo in zip(rows, bare, strict=True)),
            "of_bare_p90": statistics.median(row[1] / echo[1] for row, echo in zip(rows, bare, strict=True)),
        }
        for name, rows in by_round.items()
    }


def show(title: str, results: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}\n{'':12} {'p50':>10} {'p90':>10} {'added p50':>11} {'added p90':>11} {'÷ bare':>7} {'p90':>6}")
    for name, row in results.items():
        figures = [f"{1e3 * row[key]:.3f} ms" for key in ("p50", "p90", "added_p50", "added_p90")]
        ratios = f"{row['of_bare_p50']:7.2f} {row['of_bare_p90']:6.2f}"
        print(f"{name:12} {figures[0]:>10} {figures[1]:>10} {figures[2]:>11} {figures[3]:>11} {ratios}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--settle", type=float, default=0.2, help="seconds of calls before each turn that do not count")
    parser.add_argument("--payload", choices=["3 kB", *LARGE], action="append", help="default: all")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    payloads = options.payload or ["3 kB", *LARGE]
    with tempfile.TemporaryDirectory() as name:
        models = {title: write_model(Path(name), f"planes{planes}", planes) for title, planes in LARGE.items()}
        if "3 kB" in payloads:
            with serving(SMALL, "--runtime", RUNTIME) as urls:
                feeds = {"input": np.random.default_rng(0).random((1, 28, 28, 1), np.float32)}
                results["3 kB"] = one_payload(SMALL, RUNTIME, urls, feeds, options)
        for title in [title for title in LARGE if title in payloads]:
            with serving(models[title], "--runtime", "fake") as urls:
                feeds = {"input": np.zeros((1, LARGE[title], 224, 224), np.float32)}
                results[title] = one_payload(models[title], "fake", urls, feeds, options)
    for title, figures in results.items():
        show(f"{title} ({SMALL if title == '3 kB' else 'a model that answers at once'})", figures)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    if "3 kB" not in results:
        return 0
    added = results["3 kB"]["REST"]["added_p90"]
    print(f"\nREST adds {1e3 * added:.3f} ms at the 90th percentile to a call of {SMALL}; goal: ≤ {1e3 * GOAL:g} ms")
    grpc = results["3 kB"]["gRPC"]
    ratios = grpc["of_bare_p50"], grpc["of_bare_p90"]
    print(f"gRPC takes {ratios[0]:.2f} times a bare echo at p50, {ratios[1]:.2f} at p90; goal: ≤ {GRPC_GOAL:g}")
    return MISSED if added > GOAL or max(ratios) > GRPC_GOAL else 0


def one_payload(
    model: str, runtime: str, urls: dict[str, str], feeds: dict[str, Any], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    with zoolens.trusting(), zoolens.open_session(model, runtime=runtime) as session:
        name, shape = session.inputs[0].name, [extent or 1 for extent in session.inputs[0].shape]
    feeds = {name: next(iter(feeds.values())).reshape(shape)}
    served = Path(model).stem if model.endswith(".yaml") else model.partition(":")[2]
    request = InferRequest(served, feeds)
    calls = max(30, options.calls // 10) if feeds[name].nbytes > 1 << 20 else options.calls
    target = parse_address(urls["grpc"]).authority
    answer = over_grpc(target, request)()
    with bare_grpc(len(answer)) as bare:
        ways = {
            "in-process": in_process(model, runtime, feeds),
            "REST": over_rest(urls["http"], request),
            "REST, arrays": with_arrays(urls["http"], request),
            "gRPC": over_grpc(target, request),
            "gRPC, socket": over_http2(target, request),
            "bare gRPC": over_grpc(bare, request),
        }
        return compare(ways, options.rounds, calls, options.settle)


if __name__ == "__main__":
    raise SystemExit(main())
