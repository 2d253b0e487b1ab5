"""What the shell completes after an option: one rule for each option's name, for all commands that have it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import click
from click.shell_completion import CompletionItem

from zoolens.faces.cli.completed_names import complete_files, complete_models, complete_runs

_Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _complete_data(context: click.Context, parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """The built-in dataset while its name is being typed, otherwise files and folders."""
    if typed and "demo".startswith(typed):
        return [CompletionItem("demo")]
    return complete_files(context, parameter, typed)


def _complete_runtimes(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
    """Runtimes, also behind a comma."""
    from zoolens.base import plugins

    before, comma, begun = typed.rpartition(",")
    names = [name for name in plugins.names(plugins.RUNTIMES) if name.startswith(begun)]
    return [CompletionItem(f"{before}{comma}{name}") for name in names]


_COMPLETED: Final[Mapping[str, _Completer]] = {
    "--data": _complete_data,
    "--labels": complete_files,
    "--model": complete_models,
    "--run": complete_runs,
    "--runs": complete_runs,
    "--runtime": _complete_runtimes,
    "--store": complete_files,
}


class _CompletedText(click.types.StringParamType):
    """Text that the shell completes; in all else the type that options have without one."""

    def __init__(self, complete: _Completer) -> None:
        self._complete = complete

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._complete(ctx, param, incomplete)


def with_completed_options(command: click.Command) -> click.Command:
    """The command, and those below it, with values of their options completed; a second call adds nothing."""
    for parameter in command.params:
        complete = next((_COMPLETED[name] for name in parameter.opts if name in _COMPLETED), None)
        if complete is not None and type(parameter.type) is click.types.StringParamType:
            parameter.type = _CompletedText(complete)
    if isinstance(command, click.Group):
        for below in command.commands.values():
            with_completed_options(below)
    return command
