"""How every command prints JSON."""

from __future__ import annotations

from typing import Any

import click


def echo_json(data: Any) -> None:
    """Dates and paths as text; letters of all languages as they are."""
    import json

    from zoolens.store.jsontext import as_plain

    click.echo(json.dumps(data, indent=2, ensure_ascii=False, default=as_plain))
