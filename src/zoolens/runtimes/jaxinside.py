"""The inside of an exported JAX program: times of what XLA made of it, and values of its operations.

XLA fuses operations and runs instructions of its own; the text of the compiled program says which operations each one
computes. To read values, the program is written once more with further results: that changes what XLA can fuse.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zoolens.errors import ModelError
from zoolens.runtimes.base import Tensor
from zoolens.runtimes.calls import ObservedCall, observed_calls
from zoolens.runtimes.observing import CapturePoint, OperatorTime, Profile

_CALL: Final = "zoolens call"
_INSTRUCTION: Final = re.compile(r"^\s*(?:ROOT )?%?([\w.\-]+) = (\(?[\w\[\]{},: ()/*=]*?\)?) ([\w\-]+)\(")
_COMPUTATION: Final = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\{$")
_CALLS: Final = re.compile(r"calls=%?([\w.\-]+)")
_METADATA: Final = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_CUSTOM_CALL: Final = re.compile(r'custom_call_target="([^"]+)"')
_LIBRARY: Final = re.compile(r'"kind":"__(\w+?)_fusion"')
_FUSION: Final = re.compile(r"kind=k(Loop|Input|Output)\b")
_RESULT: Final = re.compile(r"^(\w+)\[([\d,]*)\]")
_TYPES: Final = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "s8": "int8", "u8": "uint8"}
# Operations that arrange numbers of constants or repeat what was there before.
_NOTHING_COMPUTED: Final = frozenset({"stablehlo.constant", "stablehlo.iota", "func.return", "stablehlo.custom_call"})
_NO_TIME: Final = frozenset({"constant", "parameter", "bitcast", "tuple", "get-tuple-element"})
_HOLDERS: Final = frozenset({"while", "conditional", "call"})  # instructions that run others
_LOCATION: Final = re.compile(r'^loc\((?:callsite\()?"([^"]+)"')


@dataclass(frozen=True)
class Instruction:
    """One instruction of a compiled program. `nodes`: names that the operations it computes have in the program.
    `kernel`: the library or the kind of code that XLA chose for it, where its text tells."""

    kind: str
    precision: str | None
    shapes: tuple[tuple[int, ...], ...]
    nodes: tuple[str, ...]
    kernel: str | None = None


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
    names = [_short(name) for part in computed for name in _METADATA.findall(part)]
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


def _short(name: str) -> str:
    """Where an operation comes from, without the functions that were compiled or called as a whole."""
    parts = [part for part in name.split("/") if part != "call_exported" and not re.fullmatch(r"jit\(.*\)", part)]
    return "/".join(parts)


@dataclass(frozen=True)
class _Event:
    name: str
    instruction: str  # the one that it belongs to, or nothing
    start: int
    duration: int
    thread: int
    device: str


def recorded_profiles(
    jax: Any,
    call: Callable[[], object],
    repeats: int,
    instructions: dict[str, Instruction],
    *,
    kernels: bool,
    accelerated: bool,
) -> list[Profile]:
    """Run `repeats` times with XLA's profiler on. `accelerated`: on a GPU, where only what the device did counts."""
    from jax._src.lib import _profiler

    def marked() -> None:
        with jax.profiler.TraceAnnotation(_CALL):
            call()

    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    session = _profiler.ProfilerSession(options)
    try:
        marked()  # the profiler and XLA's threads prepare themselves
        calls = observed_calls(marked, repeats)
    finally:
        recorded = session.stop()
    data = jax.profiler.ProfileData.from_serialized_xspace(recorded)
    marks, events = _read(data)
    if accelerated:
        events = [event for event in events if event.device != "cpu"]
    if not events:
        raise ModelError("XLA's profiler shows nothing that ran.", hint="May this process profile the device?")
    if len(marks) != repeats + 1:
        raise ModelError("The profile of JAX is cut off: it lacks some of the calls.", hint="Ask for fewer repeats.")
    return [
        Profile(
            observed.start,
            observed.duration,
            tuple(_operators(_within(events, mark, observed), instructions, kernels=kernels)),
            observed.delay,
        )
        for mark, observed in zip(marks[1:], calls, strict=True)
    ]


def _read(data: Any) -> tuple[list[int], list[_Event]]:
    """When each call began by the profiler's clock, and what ran on the processor and on devices, in order of time.

    On a CPU an instruction may go on in other threads after its event is over: a second event, "end: …", which names
    the first by number, says when it was done.
    """
    marks: list[int] = []
    begun: list[tuple[_Event, Any]] = []
    done: dict[Any, int] = {}
    for plane in data.planes:
        gpu = re.fullmatch(r"/device:GPU:(\d+)", plane.name)
        for thread, line in enumerate(plane.lines):
            for event in line.events:
                start, duration = int(event.start_ns), int(event.duration_ns)
                if event.name == _CALL:
                    marks.append(start)
                    continue
                stats = dict(event.stats)
                if event.name.startswith("end: "):
                    done[stats.get("_c")] = start + duration
                    continue
                if gpu and not line.name.startswith("Stream"):
                    continue
                instruction = str(stats.get("hlo_op") or "")
                if instruction or gpu:
                    device = f"cuda:{gpu.group(1)}" if gpu else "cpu"
                    begun.append((_Event(event.name, instruction, start, duration, thread, device), stats.get("_p")))
    events = [
        replace(event, duration=max(event.duration, done.get(number, 0) - event.start)) if number is not None else event
        for event, number in begun
    ]
    return sorted(marks), sorted(events, key=lambda event: event.start)


def _within(events: list[_Event], mark: int, observed: ObservedCall) -> list[_Event]:
    """The events of one call, by the clock of the call: the mark was set when it began."""
    shift = observed.start - mark
    return [
        replace(event, start=event.start + shift) for event in events if mark <= event.start < mark + observed.duration
    ]


def _operators(events: list[_Event], instructions: dict[str, Instruction], *, kernels: bool) -> Iterator[OperatorTime]:
    """Instructions as layers. On a GPU one may take several kernels, which are the library's level."""
    if all(event.device == "cpu" for event in events):  # one instruction is one event there
        yield from _nested(events, instructions)
        return
    place = 0
    for name, own in _by_instruction(events):
        yield _layer(name, own, instructions)
        if kernels:
            for event in own:
                kind = "transfer" if event.name.startswith("Memcpy") else "kernel"
                yield OperatorTime(
                    event.name,
                    kind,
                    event.duration,
                    event.start,
                    "library",
                    place,
                    kernel=event.name,
                    device=event.device,
                )
            place += len(own)
        place += 1


def _nested(events: list[_Event], instructions: dict[str, Instruction]) -> Iterator[OperatorTime]:
    """Instructions on a CPU. Loops, branches and calls last as long as what they run, which stands below them."""
    running: list[tuple[int, int]] = []  # place and end of those that hold others, the innermost last
    in_order = sorted(events, key=lambda event: (event.start, -event.duration))
    for place, (name, event) in enumerate(_numbered(in_order)):
        end = event.start + event.duration
        while running and running[-1][1] < end - event.duration // 100:  # ends are told by another thread
            running.pop()
        layer = _layer(name, [event], instructions)
        yield replace(layer, parent=running[-1][0]) if running else layer
        if layer.kind in _HOLDERS:
            running.append((place, end))


def _numbered(events: list[_Event]) -> Iterator[tuple[str, _Event]]:
    """An instruction in a loop runs several times."""
    counts: dict[str, int] = {}
    for event in events:
        count = counts[event.instruction] = counts.get(event.instruction, 0) + 1
        yield event.instruction if count == 1 else f"{event.instruction}#{count}", event


def _by_instruction(events: list[_Event]) -> Iterator[tuple[str, list[_Event]]]:
    """Kernels that follow each other and belong to one instruction, together; transfers stand alone."""
    counts: dict[str, int] = {}
    group: list[_Event] = []
    device = [event for event in events if event.device != "cpu"]
    for event, following in zip(device, [*device[1:], None], strict=True):
        group.append(event)
        if following is None or not event.instruction or following.instruction != event.instruction:
            name = event.instruction or event.name
            count = counts[name] = counts.get(name, 0) + 1
            yield name if count == 1 else f"{name}#{count}", group
            group = []


def _layer(name: str, events: list[_Event], instructions: dict[str, Instruction]) -> OperatorTime:
    longest = max(events, key=lambda event: event.duration)
    known = instructions.get(events[0].instruction)
    on_device = longest.device != "cpu"
    precision = known.precision if known else None
    if on_device and precision == "float32" and "tf32" in longest.name.lower():
        precision = "tf32"
    return OperatorTime(
        name,
        known.kind if known else "transfer" if longest.name.startswith("Memcpy") else "instruction",
        sum(event.duration for event in events),
        events[0].start,
        nodes=known.nodes if known else (),
        kernel=longest.name if on_device else known.kernel if known else None,
        precision=precision,
        shapes=known.shapes if known else (),
        thread=longest.thread,
        device=longest.device,
    )


class TappedProgram:
    """An exported program for inputs of one shape, in which the results of operations can be read."""

    def __init__(self, jax: Any, exported: Any, arrays: Sequence[Tensor], platform: str = "cpu") -> None:
        self._jax = jax
        args, kwargs = jax.tree_util.tree_unflatten(
            exported.in_tree, [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in arrays]
        )
        self._fixed = jax.export.export(jax.jit(exported.call), platforms=[platform])(*args, **kwargs)
        self._refined = _refined(self._fixed.mlir_module_serialized)
        self._tapped: tuple[tuple[str, ...], Any] | None = None
        self.values = dict(_described(self._module()))  # name -> (shape, type), in the order of the program

    def run(
        self, arrays: Sequence[Tensor], names: Sequence[str], arguments: Callable[[Sequence[Tensor]], Any]
    ) -> tuple[list[Tensor], list[Tensor]]:
        """The program's answers, and the wanted values. `arguments` makes of arrays what the program takes."""
        wanted = tuple(names)
        if self._tapped is None or self._tapped[0] != wanted:
            self._tapped = wanted, self._jax.jit(self._program(wanted).call)
        args, kwargs = arguments(arrays)
        results = [_array(result) for result in self._jax.tree_util.tree_leaves(self._tapped[1](*args, **kwargs))]
        count = len(self._fixed.out_avals)
        return results[:count], results[count:]

    def _module(self) -> Any:
        from jax.interpreters import mlir
        from jaxlib.mlir import ir

        with mlir.make_ir_context():
            return ir.Module.parse(self._refined)

    def _program(self, names: tuple[str, ...]) -> Any:
        """The program with these values as further results."""
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import func, stablehlo

        module = self._module()
        known = dict(_computing(module))
        with module.context, ir.Location.unknown():
            main = _main(module)
            block = main.regions[0].blocks[0]
            last = list(block.operations)[-1].operation
            results = [*last.operands, *(known[name].results[0] for name in names)]
            with ir.InsertionPoint(last):
                func.ReturnOp(results)
            last.erase()
            kinds = [argument.type for argument in block.arguments], [result.type for result in results]
            main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
            if "res_attrs" in main.attributes:
                del main.attributes["res_attrs"]
            content = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
        aval = type(self._fixed.out_avals[0])
        taps = tuple(aval(shape, self._jax.numpy.dtype(kind)) for shape, kind in (self.values[name] for name in names))
        count = len(self._fixed.out_avals) + len(taps)
        nothing = (None,) * count
        return replace(
            self._fixed,
            mlir_module_serialized=content,
            out_avals=(*self._fixed.out_avals, *taps),
            out_tree=self._jax.tree_util.tree_structure([0] * count),
            **{
                field: nothing for field in ("out_shardings_hlo", "_out_named_shardings") if hasattr(self._fixed, field)
            },
        )


def capture_points(first: TappedProgram, other: TappedProgram | None) -> tuple[CapturePoint, ...]:
    """The points of a program; dimensions in which a program for another batch size differs are free."""
    points = []
    for name, (shape, kind) in first.values.items():
        theirs = other.values.get(name, (shape, kind))[0] if other else shape
        free = tuple(a if a == b else None for a, b in zip(shape, theirs, strict=False))
        points.append(CapturePoint(name, node=name, shape=free, dtype=_plain_type(kind)))
    return tuple(points)


def _refined(content: bytes) -> bytes:
    """The program with all shapes known and all functions inlined."""
    from jax._src.lib import _jax
    from jax.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    module = stablehlo.deserialize_portable_artifact(mlir.make_ir_context(), content)
    refined: bytes = _jax.mlir.refine_polymorphic_shapes(
        mlir.module_to_bytecode(module), enable_shape_assertions=True, validate_static_shapes=True
    )
    return refined


def _main(module: Any) -> Any:
    return next(op for op in module.body.operations if str(op.attributes["sym_name"]).strip('"') == "main").operation


def _computing(module: Any) -> Iterator[tuple[str, Any]]:
    """Operations of the program that depend on an input, by name: where they come from, and #2, #3 … for the same."""
    block = _main(module).regions[0].blocks[0]
    dependent = set(block.arguments)
    counts: dict[str, int] = {}
    for wrapped in block.operations:
        operation = wrapped.operation
        if not any(operand in dependent for operand in operation.operands):
            continue
        dependent.update(operation.results)
        if operation.name in _NOTHING_COMPUTED or not len(operation.results) or _changes_nothing(operation):
            continue
        source = _LOCATION.match(str(operation.location))
        name = (_short(source.group(1)) if source else "") or operation.name.partition(".")[2]
        count = counts[name] = counts.get(name, 0) + 1
        yield name if count == 1 else f"{name}#{count}", operation


def _changes_nothing(operation: Any) -> bool:
    return bool(operation.name == "stablehlo.convert" and operation.operands[0].type == operation.results[0].type)


def _described(module: Any) -> Iterator[tuple[str, tuple[tuple[int, ...], str]]]:
    from jaxlib.mlir import ir

    kinds = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "i1": "bool"}
    kinds |= {f"{sign}i{bits}": f"{long}int{bits}" for sign, long in (("", ""), ("u", "u")) for bits in (8, 16, 32, 64)}
    for name, operation in _computing(module):
        kind = ir.RankedTensorType(operation.results[0].type)
        if str(kind.element_type) in kinds:
            yield name, (tuple(kind.shape), kinds[str(kind.element_type)])


def _plain_type(kind: str) -> str:
    return "float32" if kind == "bfloat16" else kind


def _array(value: Any) -> Tensor:
    array: Tensor = np.array(value)
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)
