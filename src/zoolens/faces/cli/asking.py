"""Questions to the user, on a terminal; elsewhere --yes is the only way to agree."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

import click

from zoolens.base.safety.consent import Ask, asking


def asker(yes: bool) -> Ask:
    """How a command of the user's answers what a file or a store asks for."""
    if yes:
        return _tell
    return _ask if on_terminal() else lambda _: False


def on_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def answered_yes() -> AbstractContextManager[None]:
    return asking(_tell)


def _tell(wish: str) -> bool:
    from zoolens.base.present.bars import bars_paused

    with bars_paused():
        click.echo(f"{wish} Agreed with --yes.", err=True)
    return True


def _ask(wish: str) -> bool:
    from zoolens.base.present.bars import bars_paused

    with bars_paused():
        return click.confirm(f"{wish} Agree?", err=True)
