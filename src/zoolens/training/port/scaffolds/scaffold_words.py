"""A scaffold as lines for a terminal and as data for JSON."""

from __future__ import annotations

from typing import Any

from zoolens.base.store.json_columns import json_value
from zoolens.findings.graph.diff.phrases import plural
from zoolens.training.port.port_words import check_data, check_lines, moved_data
from zoolens.training.port.scaffolds.scaffolding import FUNCTION, Scaffold


def scaffold_lines(made: Scaffold, *, everything: bool = False) -> list[str]:
    """What was written, what is left to do, and whether the draft answers like its source."""
    draft = made.draft
    are = "is" if draft.blocks == 1 else "are"
    blocks = f"; {plural(draft.blocks, 'repeated block')} {are} written once" if draft.blocks else ""
    size = f"{plural(draft.lines, 'line')}{blocks}"
    lines = [f"{made.path}:{FUNCTION} is a draft of {made.source} for {draft.framework}: {size}."]
    lines += list(draft.notes)
    if draft.todos:
        lines += ["", f"{plural(len(draft.todos), 'layer')} could not be written:"]
        lines += [f"  {todo.source} ({todo.op}): {todo.why}. Write {todo.function}()." for todo in draft.todos]
    if made.check is None:
        check = f"zoolens port check {made.source} {made.path}:{FUNCTION}"
        return [*lines, "", f"It was not checked, for it is not complete. Once it is: {check}"]
    lines += ["", *check_lines(made.check, everything=everything)]
    if made.moved is not None:
        lines.append(
            f"The weights of the draft are in {made.moved.written}."
            if made.moved.written is not None
            else "No weights were written, for with the source's own weights the two do not answer alike."
        )
    return lines


def scaffold_data(made: Scaffold) -> dict[str, Any]:
    return {
        "source": made.source,
        "path": str(made.path),
        "function": FUNCTION,
        "framework": made.draft.framework,
        "lines": made.draft.lines,
        "blocks": made.draft.blocks,
        "todos": json_value(made.draft.todos),
        "notes": list(made.draft.notes),
        "proved": made.proved,
        **made.verdict.as_data(),
        "check": check_data(made.check) if made.check is not None else None,
        "weights": moved_data(made.moved) if made.moved is not None else None,
    }
