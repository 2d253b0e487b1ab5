"""/about: what this explorer looks at."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from zoolens.base.store.browsing import page_of_runs
from zoolens.base.version import __version__
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, Query, Shown


class AboutQuery(Query):
    pass


class About(Answer):
    """The version of the explorer, and its store."""

    version: str
    store: Shown
    """The file name or address of the store."""
    runs: int
    """How many evaluations the store has."""


def about(context: Context, _: AboutQuery) -> About:
    runs = page_of_runs(context.runs, limit=0).total
    return About(version=__version__, store=PurePath(context.store.name).name, runs=runs)


ENDPOINTS: Final = (Endpoint("/about", "What this explorer looks at", about),)
