"""Lists of what a model file may name, where a format carries a program: `allowed/*.txt`, each reviewed name by name.

A file is judged by what may occur in it, never by what may not: a name that nobody has reviewed is refused. In a list,
`[title]` begins a section, a line with # is a remark, and every other line holds names with spaces between them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from zoolens.base.errors import ModelError


@cache
def allowed(name: str) -> dict[str, frozenset[str]]:
    """The names of each section of a list."""
    text = (Path(__file__).parent / "allowed" / f"{name}.txt").read_text(encoding="ascii")
    sections: dict[str, set[str]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("["):
            title = line.strip("[]")
        elif not line.startswith("#"):
            sections.setdefault(title, set()).update(line.split())
    return {title: frozenset(names) for title, names in sections.items() if title}


def refused(file: str, what: str, hint: str) -> ModelError:
    """The error for a file that carries what is on no list."""
    return ModelError(f"{file} carries {what}, which zoolens does not run.", hint=hint)
