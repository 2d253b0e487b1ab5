"""Work beside what is served: tasks that end with a block, and calls that would hold the event loop up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from typing import Any


def in_background(stack: AsyncExitStack, work: Coroutine[Any, Any, None]) -> None:
    """Begin this work now; it is cancelled when the stack is closed."""
    task = asyncio.get_running_loop().create_task(work)

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    stack.push_async_callback(stop)


async def in_thread(thread: Executor, function: Callable[[], object]) -> None:
    """Call a function in this thread, which does one thing at a time."""
    await asyncio.get_running_loop().run_in_executor(thread, function)
