"""The open loop: every request is sent at its intended time, whether or not the server has answered the earlier ones.

The number of requests under way is bounded, since sockets are. A request that finds no free connection is sent when one
becomes free, its latency still counts from its intended time, and the results say that the run was held back.
"""

from __future__ import annotations

import asyncio
import time

from zoolens.faces.load.arrivals import Arrivals
from zoolens.faces.load.driver import DriverSettings, Exchanger, Watch, run_loop
from zoolens.faces.load.exchanges import Exchanges
from zoolens.faces.load.transport_base import Transport
from zoolens.faces.load.workload import Workload

_AHEAD = 0.05  # seconds before the first request


def drive_open_loop(
    transport: Transport,
    workload: Workload,
    arrivals: Arrivals,
    settings: DriverSettings | None = None,
    watch: Watch | None = None,
) -> Exchanges:
    """Send the workload at these times and wait until everything is answered or given up."""
    return run_loop(_drive(transport, workload, arrivals, settings or DriverSettings(), watch))


async def _drive(
    transport: Transport, workload: Workload, arrivals: Arrivals, settings: DriverSettings, watch: Watch | None
) -> Exchanges:
    exchanges = Exchanges(len(arrivals))
    exchanges.intended[:] = arrivals.times
    exchanger = Exchanger(transport, workload, exchanges, settings)
    try:
        await exchanger.warm_up(min(settings.connections, 8 + round(arrivals.rate / 4)))
        await _send_all(exchanger, arrivals, asyncio.Semaphore(settings.connections), watch)
    finally:
        await transport.close()
    exchanger.judge_waiting()
    return exchanges


async def _send_all(exchanger: Exchanger, arrivals: Arrivals, slots: asyncio.Semaphore, watch: Watch | None) -> None:
    async def exchange(row: int) -> None:
        exchanger.exchanges.held[row] = slots.locked()
        async with slots:
            await exchanger.exchange(row)

    exchanger.begin(_AHEAD)
    under_way: set[asyncio.Task[None]] = set()
    reported_at = 0.0
    for row, at in enumerate(arrivals.times.tolist()):
        # By the schedule, not after the answer before: a server that stands still once would otherwise make one slow
        # request instead of dozens (coordinated omission).
        await asyncio.sleep(max(exchanger.start + at - time.perf_counter(), 0.0))
        task = asyncio.create_task(exchange(row))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
        if watch is not None and at - reported_at >= 1.0:
            reported_at = at
            watch(exchanger.done, at)
    if under_way:
        await asyncio.gather(*under_way)
