"""What the three examples share: measured models, a server in a process of its own, requests, and a report."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

import zoolens
from zoolens.base.protocol.address import parse_address
from zoolens.base.protocol.messages import InferRequest
from zoolens.base.store.store import open_store
from zoolens.faces.load.arrivals import Arrivals
from zoolens.faces.load.driver import DriverSettings
from zoolens.faces.load.exchanges import Outcome
from zoolens.faces.load.open_loop import drive_open_loop
from zoolens.faces.load.results import Results, summarise
from zoolens.faces.load.transport import make_transport
from zoolens.faces.load.workload import Workload
from zoolens.faces.serving.services.events import Session, sessions
from zoolens.inventory.catalog.lookup import find
from zoolens.inventory.datasets.opening import open_dataset
from zoolens.inventory.manifests.schema import Input
from zoolens.inventory.preprocess.pipeline import build_prepare
from zoolens.inventory.runtimes.runtime import TensorSpec

ROWS = 32  # images in a request: the demo models are so small that one alone is answered in a tenth of a millisecond


@contextlib.contextmanager
def example_folder() -> Iterator[Path]:
    """A folder for store and service file, away from the user's own."""
    with tempfile.TemporaryDirectory(prefix="zoolens-example-") as folder:
        yield Path(folder)


def measure(store: Path, models: Mapping[str, Sequence[str]], *, memory: bool = False) -> None:
    """Measure models, by runtime, on some of the built-in data: services choose among what is in the store."""
    for runtime, names in models.items():
        zoolens.evaluate(names, "demo", runtimes=[runtime], limit=500, batches=(1,), cold=memory, store=store)


@contextlib.contextmanager
def served(file: Path, store: Path) -> Iterator[str]:
    """`zoolens serve FILE` as long as the block lasts; gives the address of REST."""
    command = [sys.executable, "-m", "zoolens", "serve", str(file), "--http", "0", "--grpc", "off"]
    with (file.parent / "server.log").open("w+") as log:
        server = subprocess.Popen([*command, "--store", str(store)], stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            yield _address(server, log)
        finally:
            server.terminate()
            server.wait(60)


def _address(server: subprocess.Popen[str], log: TextIO) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if match := re.search(r"REST: (http://\S+?)/v2", line):
            return match[1]
    log.seek(0)
    raise SystemExit(f"The server did not start: {log.read()}")


def requests(reference: str, service: str, rows: int = ROWS, images: int = 20 * ROWS) -> Workload:
    """Requests of some images each, prepared as the reference declares."""
    spec: Input = find(reference).manifest.inputs[0]
    prepare = build_prepare(spec, TensorSpec("input", spec.shape, spec.dtype))
    with contextlib.closing(open_dataset("demo", limit=images)) as data:
        tensors = np.stack([prepare(data.read(place).value) for place in range(len(data))])
    batches = [tensors[start : start + rows] for start in range(0, len(tensors) - rows + 1, rows)]
    return Workload(tuple(InferRequest(service, {"input": batch}) for batch in batches), f"{rows} images each")


def send(url: str, service: str, workload: Workload, arrivals: Arrivals, deadline: float) -> Results:
    """Send requests at the times at which they would come, whether or not earlier ones were answered."""
    transport = make_transport(parse_address(f"{url}/v2/models/{service}"), "", binary=True)
    exchanges = drive_open_loop(transport, workload, arrivals, DriverSettings(timeout=10.0))
    return summarise(exchanges, loop="open", seconds=arrivals.duration, deadline=deadline)


def lost(results: Results) -> int:
    """Requests without an answer."""
    return results.requests - results.outcomes.get(Outcome.ANSWERED, 0)


def last_session(store: Path, service: str) -> Session:
    with open_store(store) as opened:
        return sessions(opened, service, 1)[0]


def print_events(session: Session, kinds: Sequence[str] = ("switch", "memory", "ladder", "promise")) -> None:
    shown = [event for event in session.events if event.kind in kinds]
    start = session.events[0].time
    for event in shown[:20]:
        what = f"{event.previous} → {event.model}: " if event.previous else ""
        print(f"  {(event.time - start) / 1e9:6.2f} s  {event.kind:8}{what}{event.reason}")
    if len(shown) > 20:
        print(f"  … and {len(shown) - 20} more")
    for (model, _), count in session.answered.items():
        print(f"  {count:,} requests were answered by {model}")


def wait_until(start: float, seconds: float) -> None:
    time.sleep(max(0.0, start + seconds - time.perf_counter()))
