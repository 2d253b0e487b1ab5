"""The option `--trust`, for every command that lets a framework parse a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _begin(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from zoolens.engine.sandbox import trusting

        context.with_resource(trusting())


def trust_option(command: _Function) -> _Function:
    return click.option(
        "--trust",
        is_flag=True,
        expose_value=False,
        callback=_begin,
        help="Open models without the sandbox: only if you trust whoever made the files.",
    )(command)
