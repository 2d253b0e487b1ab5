"""The closed loop: so many clients, each of which sends its next request when the last one is answered.

It measures how much a server can do. It does not measure how long users wait: while the server is slow, a closed loop
sends less, and the requests that would have waited are not there (coordinated omission).
"""

from __future__ import annotations

import asyncio
import itertools
import time

import numpy as np

from zoolens.base.errors import ZoolensError
from zoolens.faces.load.driver import DriverSettings, Exchanger, Watch, run_loop
from zoolens.faces.load.exchanges import Exchanges
from zoolens.faces.load.transport_base import Transport
from zoolens.faces.load.workload import Workload

MOST_REQUESTS = 2_000_000


def drive_closed_loop(
    transport: Transport,
    workload: Workload,
    *,
    clients: int,
    duration: float,
    settings: DriverSettings | None = None,
    watch: Watch | None = None,
) -> Exchanges:
    """Let `clients` clients send for `duration` seconds. Requests that are under way at the end are waited for."""
    settings = settings or DriverSettings()
    if not 1 <= clients <= settings.connections:
        raise ZoolensError(f"{clients:,} clients do not fit into {settings.connections:,} connections.")
    return run_loop(_drive(transport, workload, clients, duration, settings, watch))


async def _drive(
    transport: Transport,
    workload: Workload,
    clients: int,
    duration: float,
    settings: DriverSettings,
    watch: Watch | None,
) -> Exchanges:
    exchanges = Exchanges(MOST_REQUESTS)
    exchanger = Exchanger(transport, workload, exchanges, settings)
    rows = itertools.count()

    async def client() -> None:
        while (now := time.perf_counter() - exchanger.start) < duration:
            row = next(rows)
            if row >= MOST_REQUESTS:
                return
            exchanges.intended[row] = now
            await exchanger.exchange(row)

    async def tell() -> None:
        while watch is not None:
            await asyncio.sleep(1.0)
            watch(exchanger.done, time.perf_counter() - exchanger.start)

    try:
        await exchanger.warm_up(clients)
        exchanger.begin()
        telling = asyncio.create_task(tell())
        await asyncio.gather(*(client() for _ in range(clients)))
        telling.cancel()
    finally:
        await transport.close()
    exchanger.judge_waiting()
    return exchanges.first(int(np.count_nonzero(~np.isnan(exchanges.intended))))
