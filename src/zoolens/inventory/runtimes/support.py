"""Which runtime can do what: one table, made from the declarations that also make the errors and the tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.abilities import ABILITIES
from zoolens.inventory.runtimes.runtime import Runtime


@dataclass(frozen=True)
class SupportRow:
    """One runtime. `abilities`: None where it can, else the reason why not."""

    name: str
    summary: str
    version: str | None  # None: its framework is not installed here
    formats: tuple[str, ...]
    devices: tuple[str, ...]
    modes: tuple[str, ...]
    abilities: Mapping[str, str | None]


def support_row(runtime: Runtime) -> SupportRow:
    return SupportRow(
        name=runtime.name,
        summary=runtime.summary,
        version=runtime.version(),
        formats=runtime.formats,
        devices=runtime.devices,
        modes=runtime.modes,
        abilities={ability: runtime.cannot.get(ability) for ability in ABILITIES},
    )


def support_rows() -> list[SupportRow]:
    """All registered runtimes by name; a plug-in that cannot be imported is left to `plugins.load` to explain."""
    rows = []
    for name in plugins.names(plugins.RUNTIMES):
        try:
            runtime: Runtime = plugins.load(plugins.RUNTIMES, name)()
        except ZoolensError:
            continue
        rows.append(support_row(runtime))
    return rows


def support_markdown() -> str:
    """The table of the documentation, with the reason of every "no" below it."""
    rows = support_rows()
    columns = ["runtime", "formats", "devices", "modes", *(ability.replace("_", " ") for ability in ABILITIES)]
    lines = [_line(columns), _line(["---"] * len(columns))]
    reasons = []
    for row in rows:
        marks = ["yes" if row.abilities[ability] is None else "no" for ability in ABILITIES]
        lines.append(
            _line([row.name, ", ".join(row.formats), ", ".join(row.devices), ", ".join(row.modes) or "default", *marks])
        )
        reasons += [
            f"- {row.name}, {ability.replace('_', ' ')}: {reason}."
            for ability, reason in row.abilities.items()
            if reason is not None
        ]
    meanings = [f"- {ability.replace('_', ' ')}: {meaning}." for ability, meaning in ABILITIES.items()]
    parts = [lines, ["What the columns mean:", "", *meanings], ["Why not:", "", *reasons]]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
