"""Charts as PNG and SVG files, drawn by vl-convert without a browser and without a network."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any, Final

from zoolens.base.errors import MissingDependency
from zoolens.base.present.charts import Chart, for_file

SCALE: Final = 2.0  # pixels of a file for one of a page
EXTRA: Final = "reports"


def can_draw() -> bool:
    """Whether the library that draws files is installed."""
    return find_spec("vl_convert") is not None


def png(chart: Chart) -> bytes:
    image: bytes = _library().vegalite_to_png(_spec(chart), scale=SCALE, show_warnings=False)
    return image


def svg(chart: Chart) -> str:
    image: str = _library().vegalite_to_svg(_spec(chart), show_warnings=False)
    return image


def _spec(chart: Chart) -> str:
    return json.dumps(for_file(chart), allow_nan=False)


def _library() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise MissingDependency("A chart as PNG or SVG", "vl-convert-python", EXTRA) from error
    return vl_convert
