"""How the sentences of a diff call the two models."""

from __future__ import annotations

from pathlib import Path


def short_names(a: str, b: str) -> tuple[str, str]:
    """How sentences call the two models: by their zoos if those differ, else by their names."""
    zoos = [ref.split(":", 1)[0] if ":" in ref and not Path(ref).exists() else Path(ref).name for ref in (a, b)]
    return (zoos[0], zoos[1]) if zoos[0] != zoos[1] else (a, b) if a != b else (f"{a} (A)", f"{b} (B)")
