"""The contract every runtime keeps: open → predict → close, plus optional abilities it declares.

A runtime is one subclass of `Runtime` in one file, registered under the entry-point group
`zoolens.runtimes`. Obligations:

- the framework is imported in `load_library` or below it, never at module import;
- `load` and `compile` touch nothing global: two runtimes, or two sessions of one, coexist in a process;
- model files are untrusted: nothing is unpickled, no code that a file carries is executed;
- whatever the framework raises while opening or running a model becomes a `ModelError` of one sentence;
- a session is used by one thread at a time, and `predict` does not keep or modify the arrays it is given.

What a runtime cannot do is declared once, in `cannot`; the error a user sees, the support table in the
documentation and the conformance tests all come from that declaration.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from numpy.typing import NDArray

from zoolens.base.errors import MissingDependency, ModelError, UnsupportedAbility, ZoolensError, first_line
from zoolens.base.plugins import installed_version
from zoolens.inventory.runtimes.abilities import ABILITIES, DOING
from zoolens.inventory.runtimes.devices import DeviceTimes, device_kind
from zoolens.inventory.runtimes.model_files.model_reading import check_file
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile

if TYPE_CHECKING:  # not in a worker: the schema needs pydantic
    from zoolens.inventory.manifests.schema import Asset, Manifest

Tensor = NDArray[Any]
Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class TensorSpec:
    """One input or output. None in `shape` is a free dimension. `scale`/`zero_point`: a quantised tensor.
    `likeliest_only`: only the largest scores of a row are the model's, and the others are made up to fill the row."""

    name: str
    shape: tuple[int | None, ...]
    dtype: str
    scale: float | None = None
    zero_point: int | None = None
    likeliest_only: bool = False

    @property
    def quantised(self) -> bool:
        return bool(self.scale)

    @property
    def for_any_batch(self) -> TensorSpec:
        """With a free first dimension."""
        return replace(self, shape=(None, *self.shape[1:])) if self.shape else self

    def with_extents(self, declared: Sequence[int | None]) -> TensorSpec:
        """With the extents that a manifest declares and the file leaves free; unchanged where it has other axes."""
        if len(declared) != len(self.shape):
            return self
        known = tuple(stated if own is None else own for own, stated in zip(self.shape, declared, strict=True))
        return replace(self, shape=known)


@dataclass(frozen=True)
class ModelFiles:
    """What a runtime opens: local, verified files by role, and what the manifest knows that the file may not.

    Roles: "model" (the file, or the graph of a two-file format), "weights" (.caffemodel, .bin, .params);
    a directory format (tf-savedmodel) has the directory as "model".
    `architecture` says how to build a network for bare weights (see `manifests.schema.Architecture`).
    `inputs`/`outputs` are the manifest's declaration, for formats that do not carry shapes.
    """

    format: str
    files: Mapping[str, Path]
    architecture: Mapping[str, Any] | None = None
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()

    def path(self, role: str = "model") -> Path:
        if role not in self.files:
            raise ModelError(
                f"A {self.format} model needs a file in the role {role!r}; it has {', '.join(self.files)}.",
                hint="Add it under assets.files in the manifest.",
            )
        return self.files[role]


@dataclass(frozen=True)
class Options:
    """How to run it. `device` is "cpu", or another kind of device with or without a number ("cuda", "cuda:1").

    `mode` is "default" or one of the runtime's `modes`; `precision` is "default" or "float32".
    """

    threads: int | None = None
    device: str = "cpu"
    precision: str = "default"
    mode: str = "default"


@dataclass(frozen=True)
class Effective:
    """What the runtime reports that it did; recorded in the lock of every evaluation."""

    provider: str
    precision: str | None = None  # "float32", "bfloat16", "int8", "float32+bfloat16"; None: it does not report it
    threads: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)


class Session(ABC):
    """One opened model. Use as a context manager or call `close`."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    phases: dict[str, float]  # seconds spent in "load" and "compile", filled in by Runtime.open
    sandbox: str = "none (in this process)"  # what confines the process that the model runs in
    elsewhere: bool = False  # in another process, to which it takes time to hand a batch over
    in_flight: int = 1  # predictions worth beginning before the first of them is waited for
    largest_batch: int | None = None  # rows that it takes at once, where there is a limit
    postprocessed: bool = False  # its main output holds probabilities, after the manifest's postprocessing
    last_predict_seconds: float | None = None  # of the last batches, as that other process saw them
    traceparent: str | None = None  # the trace of the W3C that predictions belong to; handed on to servers

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(spec.name for spec in specs) for specs in (self.inputs, self.outputs))
        return f"<{type(self).__name__} {inputs} → {outputs}>"

    @abstractmethod
    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        """Run one batch: arrays by input name, exactly in the declared dtypes; arrays by output name back.

        Quantised tensors pass through as stored integers; (de)quantising is the caller's work.
        """

    def begin_predict(self, batches: Sequence[Mapping[str, Tensor]]) -> Callable[[], list[Tensors]]:
        """Hand over some batches; what is given back waits for their answers, which are asked for in the order in which
        batches were handed over. In our own process they are run now, unless a device runs them."""
        answers = [self.predict(feeds) for feeds in batches]
        return lambda: answers

    @abstractmethod
    def effective(self) -> Effective:
        """Provider, precision and threads in effect. May run the model's profiler, never changes the session."""

    def count_parameters(self) -> int:
        """Weights and biases, as zoos state them: running statistics and quantisation parameters do not count."""
        raise NotImplementedError

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        """Run one batch several times with the framework's profiler on. `kernels`: with the primitives or device
        kernels below the operators too, which takes a runtime that has the ability `kernels`. A first run that only
        prepares something is not among those given back."""
        raise NotImplementedError

    def capture_points(self) -> tuple[CapturePoint, ...]:
        """The tensors that `capture` can read, in the order in which they are computed; the outputs are among them."""
        raise NotImplementedError

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        """Run one batch and read some tensors on the way; those that are not asked for take no memory."""
        raise NotImplementedError

    def extend(self, tokens: Tensor, kept: int | None = None) -> Tensor:
        """Continue the sequences of this session with new tokens (integers, rows × tokens; each row is a sequence), and
        return the log-probabilities (float32, rows × vocabulary) of the token after them. `kept`: how many tokens of
        the sequences so far stay before the new ones; None: all. 0 begins new sequences, of which there may be another
        number. `predict` does not change them. After an error they are as before."""
        raise NotImplementedError

    def profile_extend(self, tokens: Tensor, kept: int, repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        """Begin new sequences with the first `kept` of these tokens, and profile how the others are read behind them,
        several times. Of runtimes that `profile` and `extend`. What the sequences are afterwards is left open."""
        raise NotImplementedError

    def device_times(self, feeds: Mapping[str, Tensor], repeats: int = 1) -> list[DeviceTimes]:
        """Run one batch several times on a device that is no CPU: what was moved and computed there, and how long the
        host took. A first run that only prepares something is not among those given back."""
        raise NotImplementedError

    def close(self) -> None:
        """Release what the framework holds. Calling it twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Yielding(IntEnum):
    """When threads of a session that wait for work sleep. Many frameworks let them spin for a while, which makes the
    next work quicker where it comes at once, and takes a core from everybody else."""

    NEVER = 0  # they do what the framework does by itself
    AFTER_CALLS = 1  # as soon as a call has ended
    # Also where they wait for each other within a call. Spinning there makes long calls up to a third faster on idle
    # cores. Calls of less than a millisecond gain nothing, and a thread that spins for another one which has no core
    # spins until the scheduler's next tick: 4 ms for a call of 0.06 ms.
    ALWAYS = 2


class Runtime(ABC):
    """One way of running models. Stateless: all state lives in the sessions it opens."""

    name: ClassVar[str]
    summary: ClassVar[str]
    formats: ClassVar[tuple[str, ...]]
    requirements: ClassVar[tuple[str, ...]] = ()  # pip requirements an isolated environment needs
    distributions: ClassVar[tuple[str, ...]] = ()  # whose versions change the numbers; the first one is "the" version
    protocol: ClassVar[int] = 1  # raised when our calling of the framework changes what figures mean: new keys
    extra: ClassVar[str | None] = None  # the zoolens extra that brings it
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    modes: ClassVar[tuple[str, ...]] = ()
    accelerated_modes: ClassVar[tuple[str, ...]] = ()  # further modes on devices other than the CPU
    cannot: ClassVar[Mapping[str, str]] = {}  # ability -> why not
    fragile: ClassVar[str | None] = None  # why a model can take the process down: it has its own even when trusted
    plain: ClassVar[str | None] = None  # why its files are harmless data: they are then read in our own process
    coarser_modes: ClassVar[tuple[str, ...]] = ()  # those that compute in less precision than the default
    compilers: ClassVar[tuple[str, ...]] = ()  # modes in which it starts other programs; the sandbox then lets it
    compiler_cache: ClassVar[str | None] = None  # the variable that tells its compiler where to keep what it made
    variables: ClassVar[Mapping[str, str]] = {}  # of the environment, in processes of its own
    takes_packed: ClassVar[bool] = False  # its sessions take texts and bfloat16 as numbers, as `packed` makes them
    spins: ClassVar[bool] = False  # threads of its sessions spin within a call, unless it always yields
    addressed: ClassVar[str | None] = None  # how an address is written, of a runtime that is named as name:address

    yielding: Yielding = Yielding.NEVER  # set by servers

    def __init__(self, address: str = "") -> None:
        self.address = address

    @property
    def full_name(self) -> str:
        """What names this runtime again: its name, and its address where it has one."""
        return f"{self.name}:{self.address}" if self.address else self.name

    @abstractmethod
    def load_library(self) -> Any:
        """Import the framework (the import phase of a cold start) and return it."""

    @abstractmethod
    def load(self, model: ModelFiles, options: Options) -> Any:
        """Read the files into the framework's own object (the load phase)."""

    @abstractmethod
    def compile(self, loaded: Any, model: ModelFiles, options: Options) -> Session:
        """Make it ready to run (the compile phase); where the framework cannot be split, all work is here."""

    def open(self, model: ModelFiles, options: Options | None = None) -> Session:
        """Import, load and compile, timing each; anything the framework raises reads as one sentence."""
        options = options or Options()
        self.check(model, options)
        self.library()
        started = time.perf_counter()
        try:
            loaded = self.load(model, options)
            ready = time.perf_counter()
            session = self.compile(loaded, model, options)
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(
                f"{self.name} cannot open {model.path().name} as {model.format}: {self.reason(error)}",
                hint="Is the file complete, and is the format in the manifest right?",
            ) from error
        session.phases = {"load": ready - started, "compile": time.perf_counter() - ready}
        if options.precision != "default":
            _insist_on_precision(session, model, options.precision)
        return session

    def reason(self, error: BaseException) -> str:
        """The telling line of what the framework raised; override where that is not the first one."""
        return first_line(error)

    def library(self) -> Any:
        """Call `load_library`, and explain a framework that is missing or broken."""
        try:
            return self.load_library()
        except ImportError as error:
            package = self.distributions[0] if self.distributions else self.name
            raise MissingDependency(f"Runtime {self.name}", package, self.extra) from error
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(
                f"Runtime {self.name} is installed but cannot be loaded: {type(error).__name__}: {first_line(error)}",
                hint="Reinstall it, or run it in an environment of its own with --env.",
            ) from error

    def check(self, model: ModelFiles, options: Options) -> None:
        """Refuse what this runtime declares it cannot do, and pipes, devices and bombs, before any work."""
        if model.format not in self.formats:
            raise ModelError(
                f"Runtime {self.name} does not run {model.format} models; it runs {', '.join(self.formats)}."
            )
        kind = device_kind(options.device)
        if kind not in self.devices or (kind == "cpu" and options.device != "cpu"):
            raise ModelError(
                f"Runtime {self.name} does not run on device {options.device!r}; it has {', '.join(self.devices)}."
            )
        modes = self.modes if kind == "cpu" else self.modes + self.accelerated_modes
        if options.mode != "default" and options.mode not in modes:
            listed = ", ".join(modes) or "none"
            raise UnsupportedAbility(
                self.name, f"run in mode {options.mode} on {kind}", f"its modes there are {listed}"
            )
        for path in model.files.values():
            if not path.is_dir():
                check_file(path)
        if options.precision != "default":
            self.require("force_precision")
        if options.threads is not None:
            self.require("set_threads")
            most = 8 * (os.cpu_count() or 1)
            if not 1 <= options.threads <= most:
                raise ModelError(f"{options.threads} threads are not possible here; choose 1 to {most}.")

    def can(self, ability: str) -> bool:
        if ability not in ABILITIES:
            raise KeyError(ability)
        return ability not in self.cannot

    def require(self, ability: str) -> None:
        if not self.can(ability):
            raise UnsupportedAbility(self.name, DOING.get(ability, ability), self.cannot[ability])

    def asset_of(self, manifest: Manifest) -> Asset | None:
        """The files of a model that this runtime opens: the first of the manifest's that are in a format of its own."""
        return next((asset for asset in manifest.assets if asset.format in self.formats), None)

    def identity(self) -> Mapping[str, Any]:
        """Returns what else identifies the environment of a remote runtime; part of every run's key."""
        return {}

    def version(self) -> str | None:
        """Version of the framework, read from package metadata without importing it; None: not installed."""
        return installed_version(self.distributions[0]) if self.distributions else "built-in"


def _insist_on_precision(session: Session, model: ModelFiles, wanted: str) -> None:
    """Raises if the file computes in another precision than requested, as a quantised one does."""
    effective = session.effective().precision
    if effective not in (None, wanted):
        session.close()
        raise ModelError(
            f"{model.path().name} was asked to run in {wanted}, but its own arithmetic is {effective}.",
            hint="Leave the precision at its default, or take a file in that precision.",
        )


def check_feeds(inputs: Sequence[TensorSpec], feeds: Mapping[str, Tensor], *, any_batch: bool = False) -> None:
    """Refuse feeds that do not fit the inputs, in one sentence. `any_batch`: the first axis may have any extent.

    Runtimes whose framework refuses by itself call it afterwards, for the better words; the others before.
    """
    for spec in inputs:
        if spec.name not in feeds:
            raise ModelError(f"Input {spec.name!r} was not given; got {', '.join(feeds) or 'nothing'}.")
        array = feeds[spec.name]
        wanted = (None, *spec.shape[1:]) if any_batch and spec.shape else spec.shape
        if array.ndim != len(wanted) or any(w not in (None, h) for w, h in zip(wanted, array.shape, strict=True)):
            raise ModelError(
                f"Input {spec.name!r} expects shape {shape_text(wanted)} but got {shape_text(array.shape)}."
            )
        packed = {"string": array.dtype.kind in "OSUi", "bfloat16": array.dtype.name == "uint16"}.get(spec.dtype, False)
        if str(array.dtype) != spec.dtype and not packed:
            raise ModelError(f"Input {spec.name!r} expects {spec.dtype} but got {array.dtype}.")


def check_batch(outputs: Sequence[TensorSpec], answers: Mapping[str, Tensor], declared: int, batch: int) -> None:
    """Checks the answers to a batch that the file was not made for: every output that had the declared batch has the
    new one.

    Some graphs reshape to a fixed batch inside and then answer with rows run together; that must not pass.
    """
    for spec in outputs:
        array = answers[spec.name]
        if spec.shape and spec.shape[0] in (declared, None) and (not array.ndim or array.shape[0] != batch):
            raise ModelError(
                f"The model fixes its batch size inside: a batch of {batch} came back as {shape_text(array.shape)}.",
                hint=f"Run it with a batch of {declared}.",
            )


def shape_text(shape: Sequence[int | None]) -> str:
    return "×".join("?" if extent is None else str(extent) for extent in shape) or "a number"
