"""How the sentences of a diff call the two models."""

from __future__ import annotations

from pathlib import Path


def short_names(a: str, b: str) -> tuple[str, str]:
    """How sentences call the two models: by their zoos if those differ, else by their names."""
    place_a = _place(a)
    place_b = _place(b)
    if place_a != place_b:
        return place_a, place_b
    if a != b:
        return a, b
    return f"{a} (A)", f"{b} (B)"


def _place(ref: str) -> str:
    """The zoo of a reference, or the name of a file."""
    if ":" in ref and not Path(ref).exists():
        return ref.split(":", 1)[0]
    return Path(ref).name
