"""The same model on the same cores behind zoolens and behind other servers: requests per second and p99, interleaved.

    python benchmarks/serve_peers.py --python mlserver=PYTHON --python bentoml=PYTHON \
        --python litserve=PYTHON --python triton=PYTHON [--seconds 4] [--rounds 3] [--clients 8]

Every server has one process for the model, onnxruntime on one thread, and is asked by the same closed loop, in turns,
so that other load on the machine hits all alike. Each is asked in the quickest way that it understands (see
benchmarks/peers). A ratio is taken in each round, and the median over the rounds counts: above 1 zoolens answers more.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from served import serving
from zoolens.base.errors import ZoolensError
from zoolens.base.protocol.address import Address
from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.load.closed_loop import drive_closed_loop
from zoolens.faces.load.driver import DriverSettings
from zoolens.faces.load.exchanges import Outcome
from zoolens.faces.load.grpc_transport import GrpcTransport
from zoolens.faces.load.http_transport import HttpTransport
from zoolens.faces.load.results import Results, summarise
from zoolens.faces.load.transport_base import Reply, Transport
from zoolens.faces.load.workload import Workload

PEERS = Path(__file__).parent / "peers"
PAYLOADS = {"3 kB": (1, 28, 28), "600 kB": (3, 224, 224), "6 MB": (30, 224, 224)}
BATCH = 32
PATIENCE = 120.0
OURS = "zoolens"
MANIFEST = """\
zoolens: 1
name: peer
inputs: [{{modality: array, shape: [null, {shape}], layout: NCHW}}]
outputs: [{{labels: {labels}}}]
assets: [{{format: onnx, files: [{{location: peer.onnx}}]}}]
"""


def write_model(folder: Path, shape: tuple[int, ...]) -> None:
    """The mean of each plane, then a small dense layer: little to compute, so that the server is what is compared."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    weights = numpy_helper.from_array(random.random((shape[0], 10), np.float32), "weights")
    nodes = [
        helper.make_node("ReduceMean", ["input"], ["means"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], ["output"]),
    ]
    graph = helper.make_graph(
        nodes,
        "peer",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", *shape])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["n", 10])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, folder / "peer.onnx")
    labels = json.dumps([f"c{number}" for number in range(10)])
    (folder / "peer.yaml").write_text(MANIFEST.format(shape=", ".join(map(str, shape)), labels=labels))


class JsonTransport(HttpTransport):
    """A server with an HTTP of its own: tensors as base64 in JSON. `wrap` makes the body."""

    def __init__(self, address: Address, path: str, wrap: Callable[[str], Any]) -> None:
        super().__init__(address, "", binary=False)
        self._path, self._wrap = path, wrap

    def encode(self, request: InferRequest) -> list[bytes]:
        (tensor,) = request.inputs.values()
        body = json.dumps(self._wrap(base64.b64encode(tensor.tobytes()).decode())).encode()
        head = (
            f"POST {self._path} HTTP/1.1\r\nHost: {self.address.authority}\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\n\r\n"
        )
        return [head.encode() + body]

    async def send(self, encoded: list[bytes], seconds: float) -> Reply:
        reply = await super().send(encoded, seconds)
        return Reply(reply.at, reply.outcome, reply.reason)  # the body is not ours to read


@dataclass(frozen=True)
class Contestant:
    name: str
    transport: Callable[[], Transport]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def peer(name: str, python: str, model: Path, batch: int, workload: Workload) -> Iterator[Contestant]:
    http, grpc = free_port(), free_port()
    command = [python, str(PEERS / f"{name}_peer.py"), str(model), str(http), str(grpc), str(batch)]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env={**environment, "PYTHONPATH": str(PEERS)}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            port = grpc if name == "mlserver" else http
            contestant = Contestant(name, _transport(name, port))
            _await_answer(contestant, workload, process, log)
            yield contestant
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _transport(name: str, port: int) -> Callable[[], Transport]:
    http = Address("http", "127.0.0.1", port)
    return {
        "mlserver": lambda: GrpcTransport(Address("grpc", "127.0.0.1", port), ""),
        "triton": lambda: HttpTransport(http, "", binary=True),
        "bentoml": lambda: JsonTransport(http, "/predict", lambda text: {"x": [text]}),
        "litserve": lambda: JsonTransport(http, "/predict", lambda text: {"x": text}),
    }[name]


def _await_answer(contestant: Contestant, workload: Workload, process: subprocess.Popen[bytes], log: Any) -> None:
    deadline, reasons = time.monotonic() + PATIENCE, ""
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.5)
        try:
            results = ask(contestant, workload, 0.05, 1)
        except (ZoolensError, OSError) as error:
            reasons = str(error)
            continue
        if set(results.outcomes) == {Outcome.ANSWERED}:
            return
        reasons = str(results.reasons)
    log.seek(0)
    raise SystemExit(f"{contestant.name} does not answer: {reasons} {log.read()[-2000:].decode(errors='replace')}")


def ask(contestant: Contestant, workload: Workload, seconds: float, clients: int) -> Results:
    settings = DriverSettings(connections=max(clients, 8), timeout=120, warmup=20)
    exchanges = drive_closed_loop(
        contestant.transport(), workload, clients=clients, duration=seconds, settings=settings
    )
    return summarise(exchanges, loop="closed", seconds=seconds)


def compare(contestants: list[Contestant], workload: Workload, options: argparse.Namespace) -> dict[str, Any]:
    rounds: dict[str, list[tuple[float, float, int]]] = {contestant.name: [] for contestant in contestants}
    for _ in range(options.rounds):
        for contestant in contestants:
            results = ask(contestant, workload, options.seconds, options.clients)
            lost = results.requests - results.outcomes.get(Outcome.ANSWERED, 0)
            rounds[contestant.name].append((results.answered_rate, results.percentiles[2].asked, lost))
    ours = rounds[OURS]
    return {
        name: {
            "rate": statistics.median(row[0] for row in rows),
            "p99": statistics.median(row[1] for row in rows),
            "lost": sum(row[2] for row in rows),
            "rate_ratio": statistics.median(mine[0] / row[0] for mine, row in zip(ours, rows, strict=True) if row[0]),
            "p99_ratio": statistics.median(row[1] / mine[1] for mine, row in zip(ours, rows, strict=True)),
        }
        for name, rows in rounds.items()
    }


def one_payload(shape: tuple[int, ...], batching: bool, options: argparse.Namespace) -> dict[str, Any]:
    random = np.random.default_rng(0)
    requests = tuple(InferRequest("peer", {"input": random.random((1, *shape), np.float32)}) for _ in range(4))
    workload = Workload(requests, "random")
    batch = BATCH if batching else 1
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        write_model(folder, shape)
        arguments = ["--runtime", "onnxruntime", "--threads", "1", "--batch", str(batch), "--max-request", "64 MiB"]
        arguments += [] if batching else ["--batching", "off"]
        urls = stack.enter_context(serving(str(folder / "peer.yaml"), *arguments))
        port = int(urls["http"].rpartition(":")[2])
        contestants = [Contestant(OURS, _transport("triton", port))]
        for title, python in options.python:
            contestants.append(stack.enter_context(peer(title, python, folder / "peer.onnx", batch, workload)))
        return compare(contestants, workload, options)


def show(title: str, results: dict[str, Any]) -> None:
    print(f"\n{title}\n{'':10} {'requests/s':>11} {'p99':>10} {'lost':>6} {'ours/theirs':>12} {'their p99/ours':>15}")
    for name, row in results.items():
        p99 = f"{1e3 * row['p99']:.1f} ms"
        ratios = f"{row['rate_ratio']:>12.2f} {row['p99_ratio']:>15.2f}"
        print(f"{name:10} {row['rate']:>11.1f} {p99:>10} {row['lost']:>6,} {ratios}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PYTHON", help="see benchmarks/peers")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--payload", action="append", choices=list(PAYLOADS), help="default: all")
    parser.add_argument("--batching", choices=["on", "off"], help="default: both")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    options.python = [tuple(text.split("=", 1)) for text in options.python]
    results: dict[str, Any] = {}
    for payload in options.payload or PAYLOADS:
        for batching in (True, False) if options.batching is None else (options.batching == "on",):
            title = f"{payload}, batching {'on' if batching else 'off'}"
            results[title] = one_payload(PAYLOADS[payload], batching, options)
            show(title, results[title])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
