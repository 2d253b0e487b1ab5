"""The names of tasks on the command line: those of manifests, also of plug-ins."""

from __future__ import annotations

from typing import Any

import click


class TaskName(click.ParamType[str]):
    """Plug-ins are asked for only when a task is named: that takes a fifteenth of a second."""

    name = "task"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from zoolens.tasks.base import BUILT_IN, task_names

        if value not in BUILT_IN and value not in task_names():
            self.fail(f"there is no task {value!r}; tasks are {', '.join(task_names())}", param, ctx)
        return str(value)
