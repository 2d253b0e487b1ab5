"""Load on a server, from its address to results.

from zoolens.faces.load.run_load import run_load
from zoolens.faces.load.arrivals import burst

run = run_load("http://127.0.0.1:8000", burst(50, 30, factor=3), deadline=0.05, data="demo", like="demo:lenet-wide")
run.results.goodput
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from zoolens.base.present.results import Result
from zoolens.base.protocol.address import Address, parse_address
from zoolens.base.protocol.client import locate_model, open_client, token_for_servers
from zoolens.base.protocol.client_base import BINARY
from zoolens.base.protocol.messages import ModelMetadata, Parameter, ServerMetadata
from zoolens.faces.load.arrivals import Arrivals
from zoolens.faces.load.closed_loop import drive_closed_loop
from zoolens.faces.load.driver import DriverSettings, Watch
from zoolens.faces.load.exchanges import Exchanges
from zoolens.faces.load.inputs import dataset_inputs, made_up_inputs
from zoolens.faces.load.open_loop import drive_open_loop
from zoolens.faces.load.results import Results, summarise
from zoolens.faces.load.transport import make_transport
from zoolens.faces.load.transport_base import Transport
from zoolens.faces.load.workload import Workload
from zoolens.inventory.runtimes.remote import RemoteSession

MICROSECONDS = 1e6


@dataclass(frozen=True)
class Clients:
    """A closed loop: so many clients, for so many seconds."""

    count: int
    duration: float


@dataclass(frozen=True)
class Inputs:
    """What is sent: samples of a dataset (`data`), prepared as the model `like` declares, or made-up tensors."""

    data: str | None = None
    like: str | None = None
    limit: int | None = None
    rows: int = 1
    shapes: Mapping[str, Sequence[int]] | None = None


@dataclass(frozen=True)
class Target:
    """A model of a server, and what both say of themselves."""

    address: Address
    server: ServerMetadata
    model: ModelMetadata


@dataclass(frozen=True, repr=False)
class LoadRun(Result):
    """`pattern` and `sent`: in words, when requests came and what was in them."""

    target: Target
    pattern: str
    sent: str
    exchanges: Exchanges
    results: Results


def run_load(
    url: str,
    pattern: Arrivals | Clients,
    *,
    model: str = "",
    inputs: Inputs | None = None,
    deadline: float | None = None,
    send_deadline: bool = True,
    parameters: Mapping[str, Parameter] | None = None,
    settings: DriverSettings | None = None,
    watch: Watch | None = None,
    prepared: Callable[[Target, Workload], None] | None = None,
) -> LoadRun:
    """Put load on a model of a server, and judge what came back.

    `deadline`: seconds from a request's intended time within which its answer is worth something; with `send_deadline`
    the server is told of it in the parameter `timeout`, so that it can shed what it cannot do in time. `parameters` go
    with every request. `prepared` is called when everything is ready, before the first request.
    """
    settings = settings or DriverSettings()
    target, workload = prepare(url, model=model, inputs=inputs, seed=settings.seed)
    extra = dict(parameters or {})
    if deadline is not None and send_deadline:
        extra["timeout"] = round(deadline * MICROSECONDS)
    workload = workload.with_parameters(**extra) if extra else workload
    if prepared is not None:
        prepared(target, workload)
    transport = transport_to(target)
    if isinstance(pattern, Clients):
        exchanges = drive_closed_loop(
            transport, workload, clients=pattern.count, duration=pattern.duration, settings=settings, watch=watch
        )
        loop, words = "closed", f"closed loop, {pattern.count} client{'s' * (pattern.count > 1)}"
    else:
        exchanges = drive_open_loop(transport, workload, pattern, settings, watch)
        loop, words = "open", pattern.pattern
    notes = (*workload.notes, *_notes(target, loop))
    results = summarise(exchanges, loop=loop, seconds=pattern.duration, deadline=deadline, notes=notes)
    return LoadRun(target, words, workload.description, exchanges, results)


def prepare(url: str, *, model: str = "", inputs: Inputs | None = None, seed: int = 0) -> tuple[Target, Workload]:
    """Ask the server what it has, and make the requests."""
    inputs = inputs or Inputs()
    address = parse_address(url)
    with open_client(address.at(model) if model else address) as client:
        address = locate_model(client)
        target = Target(address, client.server(), client.model(address.model, address.version))
        if inputs.data is None:
            made_up = made_up_inputs(target.model, address.version, rows=inputs.rows, shapes=inputs.shapes, seed=seed)
            return target, made_up
        session = RemoteSession(client, target.server, target.model)
        workload = dataset_inputs(
            address, target.model, session, inputs.data, like=inputs.like, limit=inputs.limit, seed=seed
        )
        return target, workload


def transport_to(target: Target) -> Transport:
    return make_transport(target.address, token_for_servers(), binary=BINARY in target.server.extensions)


def _notes(target: Target, loop: str) -> list[str]:
    notes = []
    if target.address.is_local:
        notes.append("The driver shares this machine with the server: what one computes with, the other lacks.")
    if loop == "closed":
        notes.append(
            "A closed loop sends less while the server is slow: it says how much the server can do, not how long "
            "users would wait."
        )
    return notes
