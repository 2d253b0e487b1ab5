"""The option `--on`, for every command that can share out its work over several machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _begin(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value:
        from zoolens.engine.executors.base import running_on

        context.with_resource(running_on(value))


def on_option(command: _Function) -> _Function:
    return click.option(
        "--on",
        metavar="WHERE",
        expose_value=False,
        callback=_begin,
        help="Where to run: local (default), ray (the cluster of RAY_ADDRESS) or ray://host:port.",
    )(command)
