"""What XLA made of a program: its instructions, read from the text of the compiled program.

XLA fuses operations and runs instructions of its own; the text says which operations each one computes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

_INSTRUCTION: Final = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(?[\w\[\]{},: ()/*=]*?\)?) ([\w\-]+)\(")
_COMPUTATION: Final = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLS: Final = re.compile(r"calls=%?([\w.\-]+)")
_METADATA: Final = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_CUSTOM_CALL: Final = re.compile(r'custom_call_target="([^"]+)"')
_LIBRARY: Final = re.compile(r'"kind":"__(\w+?)_fusion"')
_FUSION: Final = re.compile(r"kind=k(Loop|Input|Output)\b")
_RESULT: Final = re.compile(r"^(\w+)\[([\d,]*)\]")
_TYPES: Final = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "s8": "int8", "u8": "uint8"}
_NO_TIME: Final = frozenset({"constant", "parameter", "bitcast", "tuple", "get-tuple-element"})


@dataclass(frozen=True)
class Instruction:
    """One instruction of a compiled program."""

    kind: str
    precision: str | None
    shapes: tuple[tuple[int, ...], ...]
    nodes: tuple[str, ...]  # names of the operations that it computes, as the program has them
    kernel: str | None = None  # the library or the kind of code that XLA chose, if its text says so


def read_instructions(text: str) -> dict[str, Instruction]:
    """Instructions that a compiled program runs, by name, from XLA's own text.

    A name that operations of several instructions have is left out of their nodes: it does not say which one is meant.
    """
    computation, lines = "", dict[str, list[str]]()
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            computation = match.group(1)
        elif _INSTRUCTION.match(line):
            lines.setdefault(computation, []).append(line)
    inlined = {match.group(1) for own in lines.values() for line in own if (match := _CALLS.search(line))}
    running = {
        match.group(1): _instruction(match, line, lines)
        for computation, own in lines.items()
        if computation not in inlined
        for line in own
        if (match := _INSTRUCTION.match(line))
    }
    counts = Counter(node for name, known in running.items() if known.kind not in _NO_TIME for node in known.nodes)
    return {
        name: replace(known, nodes=tuple(node for node in known.nodes if counts[node] == 1))
        for name, known in running.items()
    }


def _instruction(match: re.Match[str], line: str, lines: dict[str, list[str]]) -> Instruction:
    result, kind = match.group(2), match.group(3)
    typed = _RESULT.match(result)
    called = _CALLS.search(line)
    computed = [*lines.get(called.group(1), ()), line] if called else [line]
    names = [short_name(name) for part in computed for name in _METADATA.findall(part)]
    shape = tuple(int(extent) for extent in typed.group(2).split(",") if extent) if typed else ()
    return Instruction(
        kind,
        _TYPES.get(typed.group(1)) if typed else None,
        (shape,) if typed else (),
        tuple(dict.fromkeys(name for name in names if name)),
        _kernel(line),
    )


def _kernel(line: str) -> str | None:
    if match := _CUSTOM_CALL.search(line):
        return match.group(1)
    if match := _LIBRARY.search(line):
        return match.group(1)
    match = _FUSION.search(line)
    return f"XLA {match.group(1).lower()} fusion" if match else None


def short_name(name: str) -> str:
    """Where an operation comes from, without the functions that were compiled or called as a whole."""
    parts = [part for part in name.split("/") if part != "call_exported" and not re.fullmatch(r"jit\(.*\)", part)]
    return "/".join(parts)
