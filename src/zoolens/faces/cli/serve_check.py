"""`zoolens serve FILE --check`: which models each service of a file would use, and why."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoolens.base.errors import ZoolensError
from zoolens.base.present.terminal import echo_json, echo_prose

if TYPE_CHECKING:
    from zoolens.faces.serving.services.service_ladder import ServiceLadder


def check_services(
    services: Sequence[Path], store: str | None, *, freeze: Path | None, refuse_unknowns: bool, as_json: bool
) -> None:
    """Explain the ladder of every service, and exit with the code of the verdict.

    It is 1 where a service cannot keep what it promises, and 4 where that is not known. Models that were never timed on
    this machine are timed for it, and their times are stored.
    """
    from zoolens.base.present.bars import Bars
    from zoolens.base.verdicts import combined, refuse_unknown
    from zoolens.faces.serving.services.hosting import build_ladders, read_service_files
    from zoolens.faces.serving.services.ladder_verdict import candidates_verdict, ladder_verdict

    defined = read_service_files(services)
    with Bars() as bars:
        built = build_ladders(defined, store, bars)
    if freeze is not None:
        _freeze(built, freeze)
    _print(built, as_json=as_json)
    if refuse_unknowns:
        for name, ladder in built.items():
            refuse_unknown(candidates_verdict(ladder), f"the models of the service {name}")
    verdicts = [ladder_verdict(ladder).verdict for ladder in built.values()]
    outcome = combined(verdicts).outcome
    if outcome.exit_code:
        sys.exit(outcome.exit_code)


def _print(built: Mapping[str, ServiceLadder], *, as_json: bool) -> None:
    from zoolens.faces.cli.ladders import print_ladder
    from zoolens.faces.serving.services.ladder_verdict import checked_data

    if as_json:
        echo_json({name: checked_data(ladder) for name, ladder in built.items()})
        return
    for number, (name, ladder) in enumerate(built.items()):
        if number:
            click.echo()
        print_ladder(name, ladder)
    anew = {each.name for ladder in built.values() for each in ladder.all_candidates if each.opened}
    if anew:
        echo_prose(
            f"Opened to look at them, since what was kept of them is of other files, another runtime or another "
            f"machine, or there was nothing: {', '.join(sorted(anew))}. This is kept for the next start."
        )


def _freeze(built: Mapping[str, ServiceLadder], path: Path) -> None:
    from zoolens.faces.serving.services.frozen_ladder import frozen_data

    text = json.dumps(frozen_data(built), indent=2)
    try:
        path.write_text(text + "\n")
    except OSError as error:
        raise ZoolensError(f"The ladders cannot be written to {path}: {error.strerror or error}.") from error
