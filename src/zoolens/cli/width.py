"""The option `--wide`, for every command that prints a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from zoolens.present.terminal import show_every_column

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _show(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        show_every_column(context)


def wide_option(command: _Function) -> _Function:
    return click.option(
        "--wide",
        is_flag=True,
        expose_value=False,
        callback=_show,
        help="Show every column, however wide the table becomes.",
    )(command)
