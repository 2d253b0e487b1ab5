"""The option `--store`, with the one rule for a store that is named and not there.

- A command that reads what was measured refuses it, whether `--store` or $ZOOLENS_STORE names it.
- A command that only keeps structures in the store (audit, cost, diff, identify, segments) refuses a mistyped
  `--store`. A store that $ZOOLENS_STORE names is made: setting the variable is how a new place begins.
- A command that measures, trains or imports makes it.

Whoever makes a store that was named says so, so that a wrong name is noticed. The user's own store, which nobody named,
is made silently at its first use.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])
Use = Literal["reads", "keeps", "makes"]
HELP = "SQLite file or postgresql:// URL."


def store_option(use: Use | None, *, described: str = HELP) -> Callable[[_Function], _Function]:
    """`--store` of a command that uses the store so. None: the command calls `check_store` itself, since its use of the
    store depends on other options."""

    def check(context: click.Context, _: click.Parameter, value: str | None) -> str | None:
        if use is not None and not context.resilient_parsing:
            check_store(value, use)
        return value

    return click.option("--store", default=None, callback=check, help=described)


def check_store(store: str | None, use: Use) -> None:
    """Refuse a store that is named and not there, or say at the command's end that it was made."""
    from zoolens.base.store.target import missing_file, refuse_missing

    if use == "reads" or (use == "keeps" and store is not None):
        refuse_missing(store)
    elif path := missing_file(store):
        click.get_current_context().call_on_close(lambda: _say_if_made(path))


def _say_if_made(path: Path) -> None:
    # A command that failed before it measured made none.
    if path.exists():
        click.echo(f"A new store was made: {path}", err=True)
