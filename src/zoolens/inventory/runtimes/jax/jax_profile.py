"""Times of the instructions that XLA runs, from its own profiler."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from zoolens.base.errors import ModelError
from zoolens.inventory.runtimes.jax.jax_instructions import Instruction
from zoolens.inventory.runtimes.observing import OperatorTime, Profile
from zoolens.inventory.runtimes.timing.calls import ObservedCall, observed_calls

_CALL: Final = "zoolens call"
_HOLDERS: Final = frozenset({"while", "conditional", "call"})  # instructions that run others


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
        # The profiler and XLA's threads prepare themselves.
        marked()
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
                # A convolution goes on in other threads after its own event: without this one it would look cheap.
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
    # Place and end of those that hold others, the innermost last.
    running: list[tuple[int, int]] = []
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
