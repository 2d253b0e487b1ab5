"""Options, and kinds of their values, that several commands have; `--store` has rules of its own in `stores`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from zoolens.base.errors import ZoolensError

OUT_FILE: Final = click.Path(dir_okay=False, path_type=Path)
OUT_FOLDER: Final = click.Path(file_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def listed_names(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    """The names that an option was given, each time one or several with commas between them."""
    names = [name.strip() for value in values for name in value.split(",")]
    return tuple(name for name in names if name)


def _show_every_column(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from zoolens.base.present.terminal import show_every_column

        show_every_column(context)


def _trust_models(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        from zoolens.base.engine.sandbox import trusting

        context.with_resource(trusting())


def _begin_executor(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value and not context.resilient_parsing:
        from zoolens.base.engine.executors.current_executor import running_on

        context.with_resource(running_on(value))


wide_option = click.option(
    "--wide",
    is_flag=True,
    expose_value=False,
    callback=_show_every_column,
    help="Show every column, however wide the table becomes.",
)
trust_option = click.option(
    "--trust",
    is_flag=True,
    expose_value=False,
    callback=_trust_models,
    help="Open models without the sandbox: only if you trust whoever made the files.",
)
on_option = click.option(
    "--on",
    metavar="WHERE",
    expose_value=False,
    callback=_begin_executor,
    help="Where to run: local (default), ray (the cluster of RAY_ADDRESS), ray://host:port, or (eval) each-kind.",
)


class Size(click.ParamType[tuple[int, int]]):
    """The size of an image: 224, or 480x640 (height, width)."""

    name = "N|HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).lower().replace("×", "x").split("x")
        numbers = [int(part) for part in parts if part.isdecimal()]
        if len(parts) > 2 or len(numbers) < len(parts) or 0 in numbers:
            self.fail(f"{value!r} is not a size; write 224 or 480x640 (height x width).", param, ctx)
        return numbers[0], numbers[-1]


class _Shape(click.ParamType[tuple[str, tuple[int, ...]]]):
    """The shape of an input: 1x128, or input_ids=1x128 for the input of this name."""

    name = "[NAME=]1xN…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...]]:
        name, _, extents = str(value).rpartition("=")
        parts = extents.lower().replace("×", "x").split("x")
        if not all(part.isdecimal() and len(part) < 10 and int(part) for part in parts):
            self.fail(
                f"{value!r} is not a shape; write 1x128, or input_ids=1x128 for one input of several.", param, ctx
            )
        return name, tuple(map(int, parts))


shape_option = click.option(
    "--shape",
    "extents",
    type=_Shape(),
    multiple=True,
    callback=lambda _, __, values: dict(values),
    help="Shape of an input that the file leaves open, such as 1x128 or input_ids=1x128, at a batch of 1; may be "
    "repeated.",
)


class TaskName(click.ParamType[str]):
    """The name of a task of manifests, which may be a plug-in's.

    Plug-ins are looked for only when a task is named, since that takes a fifteenth of a second.
    """

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from zoolens.inventory.tasks.task import BUILT_IN, task_names

        if value not in BUILT_IN and value not in task_names():
            self.fail(f"there is no task {value!r}; tasks are {', '.join(task_names())}", param, ctx)
        return str(value)


class Bytes(click.ParamType[int]):
    """An amount of memory: 64 MB, or a number of bytes."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from zoolens.findings.queries.language.quantities import quantity

        if isinstance(value, int) or value.isdecimal():
            return int(value)
        try:
            amount = quantity(value, "memory")
        except ZoolensError as error:
            self.fail(error.message, param, ctx)
        if amount.relative or amount.value < 1:
            self.fail(f"{value!r} is not an amount of memory; write 64 MB.", param, ctx)
        return round(amount.value)
