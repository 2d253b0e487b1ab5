"""`zoolens` without arguments: where one is, and the three commands that come next.

It opens no store and imports no framework, so that it answers at once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from zoolens.base.version import __version__

if TYPE_CHECKING:
    from zoolens.base.store.glance import Glance

_SHOWN: Final = 3
_LOOKED_AT: Final = 2_000  # names in the working directory
_MODELS: Final = (".onnx", ".tflite", ".keras", ".h5", ".pt2", ".pt", ".pb")

Step = tuple[str, str]  # a command, and what it does


def print_whereabouts() -> None:
    """Print the store, the newest runs and the next three commands."""
    click.echo(
        f"zoolens {__version__}: how accurate, how fast and how big models are, on your data and this machine.\n"
    )
    seen = _print_store()
    steps = list(
        _first_steps(_models_here()) if seen is None or not seen.runs else _further_steps(seen, _models_here())
    )
    click.echo("\nNext")
    width = max(len(command) for command, _ in steps)
    for command, purpose in steps:
        click.echo(f"  {command:{width}}  {purpose}")
    click.echo("\nAll commands: zoolens --help. Examples of one: zoolens eval --help.")


def _print_store() -> Glance | None:
    from zoolens.base.store.target import STORE_VARIABLE

    named = os.environ.get(STORE_VARIABLE, "").strip()
    if "://" in named:
        # Its name without the password needs SQLAlchemy, and its runs a connection.
        click.echo(f"Store: the database that ${STORE_VARIABLE} names. `zoolens runs` lists its runs.")
        return None
    from zoolens.base.paths import data_dir
    from zoolens.base.store.glance import glance

    path = Path(named).expanduser().absolute() if named else data_dir() / "store.sqlite"
    if not path.exists():
        click.echo(f"Store: none yet; the first measurement makes {path}.")
        return None
    seen = glance(path, _SHOWN)
    if seen is None:
        click.echo(f"Store: {path}. `zoolens runs` lists its runs.")
    else:
        click.echo(f"Store: {path} with {seen.runs:,} run{'' if seen.runs == 1 else 's'}.")
        _print_newest(seen)
    return seen


def _print_newest(seen: Glance) -> None:
    for run in seen.newest:
        model = run.model.partition("@")[0]
        click.echo(f"  {run.id[:8]}  {run.created[:16]} UTC  {model} in {run.runtime} on {run.dataset}")


def _models_here() -> int:
    """How many files of the working directory are named like models."""
    try:
        with os.scandir() as entries:
            names = {entry.name for entry in islice(entries, _LOOKED_AT)}
    except OSError:
        return 0
    # OpenVINO's networks end in .xml, as annotations do, and have their weights beside them.
    networks = sum(name.endswith(".xml") and f"{name.removesuffix('.xml')}.bin" in names for name in names)
    return networks + sum(name.endswith(_MODELS) for name in names)


def _first_steps(models: int) -> Iterator[Step]:
    if models:
        files = f"{models:,} model file{'' if models == 1 else 's'}"
        yield "zoolens init", f"which of the {files} here to ship, on your pictures"
        yield "zoolens demo", "what that looks like, on models and data that come with zoolens"
    else:
        yield "zoolens demo", "evaluate models that come with zoolens: about a minute"
        yield "zoolens init FOLDER", "which of your models to ship, on your pictures"
    yield "zoolens models", "every zoo on this machine"


def _further_steps(seen: Glance, models: int) -> Iterator[Step]:
    yield "zoolens ui", "all of it in a browser"
    if len({run.dataset for run in seen.newest[:2]}) == 1 < seen.runs:
        yield "zoolens compare last~1 last", "the two newest runs, input by input"
    else:
        yield "zoolens runs show last", "everything about the run"
    if models:
        yield "zoolens init", "which of the models here to ship, on your pictures"
    else:
        yield 'zoolens query "ON accuracy >= 90% ORDER BY latency_p50"', "the quickest that is accurate enough"
