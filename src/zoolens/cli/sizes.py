"""`--size`: how commands take the size of an image."""

from __future__ import annotations

from typing import Any

import click


class Size(click.ParamType[tuple[int, int]]):
    """224, or 480x640 (height, width)."""

    name = "N|HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        parts = str(value).lower().replace("×", "x").split("x")
        if not 1 <= len(parts) <= 2 or not all(part.isdecimal() and int(part) > 0 for part in parts):
            self.fail(f"{value!r} is no size; write 224 or 480x640 (height x width).", param, ctx)
        return int(parts[0]), int(parts[-1])
