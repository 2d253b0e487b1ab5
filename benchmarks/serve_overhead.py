"""What the server adds to a call of the runtime: REST and gRPC from another process, beside the same model in-process.

    python benchmarks/serve_overhead.py [--rounds 7] [--calls 300]

Batch 1, one request at a time. Rounds of the three ways take turns, so that other load on the machine hits all alike;
the overhead of a round is the difference of its percentiles, and the median over the rounds counts. Requests are bytes
before they are sent and answers stay bytes, because what a client computes is not the server's. Payloads: a small
network with inputs of 3 kB, and models that answer at once with inputs of 600 kB and 6 MB.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import zoolens
from served import serving
from zoolens.load.http_transport import HttpTransport
from zoolens.protocol.address import parse_address
from zoolens.protocol.grpc_client import OPTIONS
from zoolens.protocol.messages import InferRequest
from zoolens.protocol.protobuf import INFERENCE, methods

GOAL = 0.5e-3  # seconds of overhead at the 90th percentile, of the small network
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
    parts = HttpTransport(address, "", binary=True).encode(request)
    connection = socket.create_connection((address.host, address.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = bytearray(1 << 20)

    def call() -> None:
        for part in parts:
            connection.sendall(part)
        received = connection.recv_into(buffer)
        head, _, body = bytes(buffer[:received]).partition(b"\r\n\r\n")  # the head comes in one piece
        assert head.startswith(b"HTTP/1.1 200"), head
        missing = int(LENGTH.search(head)[1]) - len(body)
        while missing > 0:
            missing -= connection.recv_into(buffer)

    return call


def over_grpc(url: str, request: InferRequest) -> Call:
    import grpc

    from zoolens.protocol.grpc_messages import request_to_protobuf

    channel = grpc.insecure_channel(parse_address(url).authority, options=OPTIONS)
    ask = channel.unary_unary(methods(INFERENCE)["ModelInfer"].path)
    content = request_to_protobuf(request).SerializeToString()
    return lambda: ask(content)


def timed(call: Call, calls: int) -> list[float]:
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def compare(ways: dict[str, Call], rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """For each way and percentile the median over the rounds; of the others also what they add to the first."""
    by_round: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for call in ways.values():
        timed(call, max(20, calls // 5))
    for _ in range(rounds):
        for name, call in ways.items():
            times = timed(call, calls)
            by_round[name].append((float(np.quantile(times, 0.5)), float(np.quantile(times, 0.9))))
    first = next(iter(ways))
    return {
        name: {
            "p50": statistics.median(row[0] for row in rows),
            "p90": statistics.median(row[1] for row in rows),
            "added_p50": statistics.median(row[0] - base[0] for row, base in zip(rows, by_round[first], strict=True)),
            "added_p90": statistics.median(row[1] - base[1] for row, base in zip(rows, by_round[first], strict=True)),
        }
        for name, rows in by_round.items()
    }


def show(title: str, results: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}\n{'':12} {'p50':>10} {'p90':>10} {'added p50':>11} {'added p90':>11}")
    for name, row in results.items():
        figures = [f"{1e3 * row[key]:.3f} ms" for key in ("p50", "p90", "added_p50", "added_p90")]
        print(f"{name:12} {figures[0]:>10} {figures[1]:>10} {figures[2]:>11} {figures[3]:>11}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        models = {title: write_model(Path(name), f"planes{planes}", planes) for title, planes in LARGE.items()}
        with serving(SMALL, "--runtime", RUNTIME) as urls:
            feeds = {"input": np.random.default_rng(0).random((1, 28, 28, 1), np.float32)}
            results["3 kB"] = one_payload(SMALL, RUNTIME, urls, feeds, options)
        with serving(*models.values(), "--runtime", "fake") as urls:
            for title, planes in LARGE.items():
                feeds = {"input": np.zeros((1, planes, 224, 224), np.float32)}
                results[title] = one_payload(models[title], "fake", urls, feeds, options)
    for title, figures in results.items():
        show(f"{title} ({SMALL if title == '3 kB' else 'a model that answers at once'})", figures)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    added = results["3 kB"]["REST"]["added_p90"]
    print(f"\nREST adds {1e3 * added:.3f} ms at the 90th percentile to a call of {SMALL}; goal: ≤ {1e3 * GOAL:g} ms")
    return int(added > GOAL)


def one_payload(
    model: str, runtime: str, urls: dict[str, str], feeds: dict[str, Any], options: argparse.Namespace
) -> dict[str, dict[str, float]]:
    with zoolens.trusting(), zoolens.open_session(model, runtime=runtime) as session:
        name, shape = session.inputs[0].name, [extent or 1 for extent in session.inputs[0].shape]
    feeds = {name: next(iter(feeds.values())).reshape(shape)}
    served = Path(model).stem if model.endswith(".yaml") else model.partition(":")[2]
    request = InferRequest(served, feeds)
    calls = max(30, options.calls // 10) if feeds[name].nbytes > 1 << 20 else options.calls
    ways = {
        "in-process": in_process(model, runtime, feeds),
        "REST": over_rest(urls["http"], request),
        "gRPC": over_grpc(urls["grpc"], request),
    }
    return compare(ways, options.rounds, calls)


if __name__ == "__main__":
    raise SystemExit(main())
