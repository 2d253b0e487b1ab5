"""Sentences that several commands say in the same words."""

from __future__ import annotations


def changed_file_note(ref: str, run_id: str) -> str:
    """Says that what a run answered is not what the model answers now."""
    return f"The file of {ref} has changed since it was measured in run {run_id[:8]}: `zoolens eval` it again."
