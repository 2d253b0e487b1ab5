"""Print every command with each of its arguments and options, one a line, so that two versions can be compared.

Usage: python scripts/list_flags.py > before.txt
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import click

from zoolens.faces.cli.main import COMMANDS, cli


def described(command: click.Command, path: str) -> Iterator[str]:
    """The command itself, its parameters in alphabetical order, then its subcommands."""
    yield path
    yield from sorted(f"{path}  {_parameter(parameter)}" for parameter in command.params)
    if isinstance(command, click.Group):
        for name, subcommand in sorted(command.commands.items()):
            yield from described(subcommand, f"{path} {name}")


def _parameter(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        return f"argument {parameter.name}"
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    choices = parameter.type.choices if isinstance(parameter.type, click.Choice) else ()
    listed = f" one of {', '.join(map(str, choices))}" if choices else ""
    return f"{names}{listed}{' several' if parameter.multiple else ''}"


def main() -> None:
    for line in described(cli, "zoolens"):
        print(line)
    for name in sorted(COMMANDS):
        command: click.Command = importlib.import_module(f"zoolens.faces.cli.{name.replace('-', '_')}").command
        for line in described(command, f"zoolens {name}"):
            print(line)


if __name__ == "__main__":
    main()
