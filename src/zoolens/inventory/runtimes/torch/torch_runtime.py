"""PyTorch models on CPU and CUDA: TorchScript, torch.export archives, and bare weights with their architecture."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

from zoolens.base.errors import ModelError, UnsupportedAbility, ZoolensError, first_line
from zoolens.inventory.frameworks.torchvision_shim import import_torchvision
from zoolens.inventory.manifests.pickles import check_no_object
from zoolens.inventory.runtimes.devices import DeviceTimes
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile, check_points
from zoolens.inventory.runtimes.runtime import (
    Effective,
    ModelFiles,
    Options,
    Runtime,
    Session,
    Tensor,
    Tensors,
    TensorSpec,
    check_batch,
    check_feeds,
)
from zoolens.inventory.runtimes.timing.process_wide import lent_threads
from zoolens.inventory.runtimes.torch.profiler_marks import Marks, marked_modules, marked_program
from zoolens.inventory.runtimes.torch.torch_bfloat16 import MODES as BFLOAT16
from zoolens.inventory.runtimes.torch.torch_bfloat16 import cast, network_in_bfloat16
from zoolens.inventory.runtimes.torch.torch_capture import (
    Observer,
    ScriptObserver,
    capture_points,
    observer_of,
    to_array,
)
from zoolens.inventory.runtimes.torch.torch_cuda import (
    GRAPHS,
    GraphedCall,
    Transfers,
    check_cuda,
    cuda_facts,
    lent_float32,
    timed_call,
    uses_tf32,
)
from zoolens.inventory.runtimes.torch.torch_export import check_export, declared_inputs, exported_module
from zoolens.inventory.runtimes.torch.torch_profile import recorded_profiles
from zoolens.inventory.runtimes.torch.torch_script import check_torchscript, failure_reason
from zoolens.inventory.runtimes.torch.torch_sequences import CachedSequences
from zoolens.inventory.runtimes.torch.torch_weights import build_with_weights

__all__ = ["Torch", "import_torchvision"]


class Torch(Runtime):
    name = "torch"
    summary = "PyTorch, CPU and CUDA, eager or compiled"
    formats = ("torchscript", "torch-export", "torch-state-dict")
    requirements = ("torch",)
    distributions = ("torch", "torchvision", "timm")
    extra = "torch"
    devices = ("cpu", "cuda")
    modes = ("eager", "compiled")
    accelerated_modes = ("cuda-graphs", "autocast-bfloat16", *BFLOAT16)
    coarser_modes = ("autocast-bfloat16", *BFLOAT16)
    compilers = ("compiled",)
    compiler_cache = "TORCHINDUCTOR_CACHE_DIR"

    def load_library(self) -> Any:
        import torch

        return torch

    def check(self, model: ModelFiles, options: Options) -> None:
        super().check(model, options)
        if options.mode == "compiled" and model.format == "torchscript":
            reason = "torch.compile takes exported programs and bare weights, not TorchScript."
            raise UnsupportedAbility(self.name, "compile a torchscript model", reason)
        if options.mode in BFLOAT16 and model.format != "torch-state-dict":
            reason = (
                "its program names the type of each number; mode autocast-bfloat16 computes its products in bfloat16."
            )
            raise UnsupportedAbility(self.name, f"keep the numbers of a {model.format} model in bfloat16", reason)
        if options.mode in BFLOAT16 and options.precision == "float32":
            raise UnsupportedAbility(self.name, "compute in float32", f"mode {options.mode} computes in bfloat16.")

    def reason(self, error: BaseException) -> str:
        return failure_reason(error)

    def load(self, model: ModelFiles, options: Options) -> Any:
        torch = self.load_library()
        if options.device != "cpu":
            check_cuda(torch, options.device)
        check_no_object(model.path())
        if model.format == "torchscript":
            check_torchscript(model.path())
            return torch.jit.load(str(model.path()), map_location=options.device).eval()
        if model.format == "torch-export":
            check_export(model.path())
            program = torch.export.load(str(model.path()))
            if options.device != "cpu":
                program = torch.export.passes.move_to_device_pass(program, options.device)
            return exported_module(program)
        module = build_with_weights(model).eval()
        return (network_in_bfloat16(torch, module) if options.mode in BFLOAT16 else module).to(options.device)

    def compile(self, loaded: Any, model: ModelFiles, options: Options) -> Session:
        torch = self.load_library()
        inputs = model.inputs or declared_inputs(loaded, model)
        if options.mode == "compiled":
            session = TorchSession(torch, loaded, torch.compile(loaded), inputs, model.outputs, options)
            session.warm_up()
            return session
        call = GraphedCall(torch, loaded) if options.mode in GRAPHS else loaded
        return TorchSession(torch, loaded, call, inputs, model.outputs, options)


class TorchSession(Session):
    def __init__(
        self,
        torch: Any,
        module: Any,
        call: Any,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        options: Options,
    ) -> None:
        self._torch, self._module, self._call, self._options = torch, module, call, options
        self._compiled = options.mode == "compiled"
        self._device = torch.device(options.device)
        self._transfers = Transfers(torch, self._device) if self._device.type == "cuda" else None
        self.in_flight = 1 if self._transfers is None else 2
        self.inputs = inputs
        self.outputs = self._found_outputs([spec.name for spec in outputs])

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        return self._begun(feeds)()

    def begin_predict(self, batches: Sequence[Mapping[str, Tensor]]) -> Callable[[], list[Tensors]]:
        begun = [self._begun(feeds) for feeds in batches]
        return lambda: [finish() for finish in begun]

    def _begun(self, feeds: Mapping[str, Tensor]) -> Callable[[], Tensors]:
        """Launch a prediction; what is given back waits for its answers."""
        # A convolution accepts other sizes too, and then means something else.
        check_feeds(self.inputs, feeds, any_batch=True)
        with self._explained():
            fetched = self._run(self._call, [feeds[spec.name] for spec in self.inputs], self._begin_fetch)

        def finish() -> Tensors:
            with self._explained():
                arrays = fetched().values()
            named = {spec.name: array for spec, array in zip(self.outputs, arrays, strict=True)}
            declared, given = self.inputs[0].shape[:1], feeds[self.inputs[0].name].shape[:1]
            if given and declared != given:
                check_batch(self.outputs, named, declared[0] or 1, given[0])
            return named

        return finish

    def _begin_fetch(self, answers: Mapping[str, Any]) -> Callable[[], Tensors]:
        if self._transfers is not None:
            return self._transfers.begin_fetch(answers)
        # Copies: a module may answer with a view of its input or of a buffer it keeps.
        arrays = {name: answer.numpy().copy() for name, answer in answers.items()}
        return lambda: arrays

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(f"torch failed while running the model: {failure_reason(error)}") from error

    def _run(self, call: Any, arrays: Sequence[Tensor], then: Callable[[Any], Any] = lambda answers: answers) -> Any:
        """Named answers, or what `then` makes of them while torch is set up to run this model."""
        with self._running():
            return then(self._named_answers(call(*self._tensors(arrays, call))))

    def _named_answers(self, answer: Any) -> dict[str, Any]:
        """NumPy has no bfloat16, which is what products in it answer with."""
        answers = _named(self._torch, answer)
        narrow = self._torch.bfloat16
        return {name: answer.float() if answer.dtype == narrow else answer for name, answer in answers.items()}

    def _tensors(self, arrays: Sequence[Tensor], call: Any = None) -> list[Any]:
        if self._transfers is not None:
            moved = self._transfers.moved(arrays, call.own_inputs(arrays) if isinstance(call, GraphedCall) else ())
        else:
            # Copies: a module may write into what it is given (in-place ReLU), and the caller's arrays are not ours.
            moved = [self._torch.from_numpy(array.copy()) for array in arrays]
        return [cast(self._torch, given) for given in moved] if self._options.mode in BFLOAT16 else moved

    @contextmanager
    def _running(self) -> Iterator[None]:
        """What torch is lent while it runs this model."""
        torch = self._torch
        lent = lent_threads(self._options.threads, torch.get_num_threads, torch.set_num_threads)
        here = torch.cuda.device(self._device) if self._transfers is not None else nullcontext()
        narrow = torch.autocast("cuda", torch.bfloat16) if self._narrow else nullcontext()
        with lent, here, narrow, torch.inference_mode(), lent_float32(torch, forced=self._forced):
            yield

    @property
    def _narrow(self) -> bool:
        """Whether torch computes products in bfloat16, of numbers that are kept in float32."""
        return self._options.mode == "autocast-bfloat16" and not self._forced

    @property
    def _forced(self) -> bool:
        return self._transfers is not None and self._options.precision == "float32"

    def _examples(self, batch: int | None = None) -> list[Tensor]:
        """Zeros for every input: in the declared batch size, or in another one."""
        import numpy as np

        shapes = [[extent or 1 for extent in spec.shape] for spec in self.inputs]
        for shape in shapes:
            shape[:1] = [batch or shape[0]] if shape else []
        return [np.zeros(shape, spec.dtype) for shape, spec in zip(shapes, self.inputs, strict=True)]

    def _found_outputs(self, names: list[str]) -> tuple[TensorSpec, ...]:
        """Torch files do not say what they answer: ask with zeros. The manifest's names are used where they fit."""
        answers = self._run(self._module, self._examples())
        free = bool(self.inputs) and bool(self.inputs[0].shape) and self.inputs[0].shape[0] is None
        chosen = names if len(names) == len(answers) else list(answers)
        specs = []
        for name, value in zip(chosen, answers.values(), strict=True):
            shape = (None, *value.shape[1:]) if free and value.ndim else tuple(value.shape)
            specs.append(TensorSpec(name, shape, _dtype(value)))
        return tuple(specs)

    def warm_up(self) -> None:
        """Compilation happens at the first call: make it now, so that it is timed and explained as what it is."""
        try:
            self._run(self._call, self._examples())
        except Exception as error:
            raise ModelError(
                f"torch.compile failed: {first_line(error)}.",
                hint="It needs a C++ compiler such as g++; without one use mode eager.",
            ) from error

    def effective(self) -> Effective:
        torch = self._torch
        types = {_dtype(p) for p in self._module.parameters() if p.is_floating_point()}
        types |= {"int8" for name in self._module.state_dict() if "_packed_params" in name}
        if torch.get_float32_matmul_precision() != "highest" and "float32" in types:
            types.add("bfloat16")
        details: dict[str, str] = {}
        if self._transfers is not None:
            details = cuda_facts(torch, self._device, forced=self._forced)
            if "float32" in types and (self._narrow or (not self._forced and uses_tf32(torch))):
                types.add("bfloat16" if self._narrow else "tf32")
        where = "torch CPU" if self._transfers is None else "torch CUDA"
        return Effective(
            provider=where if self._options.mode in ("default", "eager") else f"{where}, {self._options.mode}",
            precision="+".join(sorted(types)) or "float32",
            threads=self._options.threads or int(torch.get_num_threads()),
            details=details,
        )

    def count_parameters(self) -> int:
        return sum(int(parameter.numel()) for parameter in self._module.parameters())

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        check_feeds(self.inputs, feeds, any_batch=True)
        arrays = [feeds[spec.name] for spec in self.inputs]
        how: dict[str, Any] = {"kernels": kernels, "named_nodes": self._has_parts, "device": self._options.device}
        if isinstance(self._observer, ScriptObserver):
            how["script"] = self._observer.operators
        try:
            return recorded_profiles(self._torch, lambda marks: self._marking(marks, arrays), repeats, **how)
        except Exception as error:
            raise ModelError(f"torch failed while it profiled the model: {failure_reason(error)}") from error

    def profile_extend(self, tokens: Tensor, kept: int, repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        if not self._has_parts:
            raise UnsupportedAbility(
                "torch", f"profile a continuation in mode {self._options.mode}", "its parts are fused"
            )
        how: dict[str, Any] = {"kernels": kernels, "named_nodes": True, "device": self._options.device}
        with self._explained(), self._running():
            marked = self._sequences.marked
            return recorded_profiles(self._torch, lambda marks: marked(marks, tokens, kept), repeats, **how)

    @contextmanager
    def _marking(self, marks: Marks, arrays: Sequence[Tensor]) -> Iterator[Callable[[], object]]:
        """The call to profile, whose parts mark themselves where it has parts."""
        if not self._has_parts:
            call = self._timed_twin
            yield lambda: self._answered(call, arrays)
        elif isinstance(self._module, self._torch.fx.GraphModule):
            program = marked_program(self._torch, self._module, marks)
            yield lambda: self._answered(program, arrays)
        else:
            with marked_modules(self._module, marks):
                yield lambda: self._answered(self._module, arrays)

    def _answered(self, call: Any, arrays: Sequence[Tensor]) -> list[Any]:
        """Answers in the host's memory, which waits for a device to make them."""
        answers = list(self._run(call, arrays).values())
        return answers if self._transfers is None else [answer.cpu() for answer in answers]

    @property
    def _has_parts(self) -> bool:
        return self._options.mode not in ("compiled", *GRAPHS) and not isinstance(
            self._module, self._torch.jit.ScriptModule
        )

    @cached_property
    def _timed_twin(self) -> Any:
        """What is profiled: a compiled network is compiled again, so that the kernels made for it show their times."""
        if not self._compiled or self._transfers is not None:
            return self._call
        return self._torch.compile(self._module, options={"cpp.enable_kernel_profile": True})

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._points

    @cached_property
    def _points(self) -> tuple[CapturePoint, ...]:
        try:
            declared, larger = self._examples(), self._examples(1 + len(self._examples()[0]))
            with self._running():
                return capture_points(self._observer, self._tensors(declared), self._tensors(larger))
        except ZoolensError:
            raise
        except Exception as error:
            raise ModelError(f"torch cannot list the tensors inside the model: {failure_reason(error)}") from error

    @cached_property
    def _observer(self) -> Observer:
        return observer_of(self._torch, self._module, compiled=self._compiled)

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        check_feeds(self.inputs, feeds, any_batch=True)
        check_points(tuple(names), self._points)
        try:
            with self._running():
                tensors = self._tensors([feeds[spec.name] for spec in self.inputs])
                answer, values = self._observer.run(tensors, frozenset(names))
                outputs = _named(self._torch, answer).values()
                return Captured(
                    {name: to_array(values[name]) for name in names},
                    {spec.name: to_array(value) for spec, value in zip(self.outputs, outputs, strict=True)},
                )
        except Exception as error:
            raise ModelError(f"torch failed while it observed the model: {failure_reason(error)}") from error

    def extend(self, tokens: Tensor, kept: int | None = None) -> Tensor:
        if self._compiled:
            raise UnsupportedAbility("torch", "continue a sequence in mode compiled", "it keeps no keys and values")
        with self._explained(), self._running():
            return self._sequences.extend(tokens, kept)

    @cached_property
    def _sequences(self) -> CachedSequences:
        return CachedSequences(self._torch, self._module, self._device, recorded=self._options.mode in GRAPHS)

    def device_times(self, feeds: Mapping[str, Tensor], repeats: int = 1) -> list[DeviceTimes]:
        if self._transfers is None:
            raise NotImplementedError
        check_feeds(self.inputs, feeds, any_batch=True)
        arrays = [feeds[spec.name] for spec in self.inputs]

        def moved() -> list[Any]:
            return self._tensors(arrays, self._call)

        def call(*tensors: Any) -> dict[str, Any]:
            return self._named_answers(self._call(*tensors))

        with self._explained(), self._running():
            steps = moved, call, self._transfers.begin_fetch
            made = [timed_call(self._torch, self._device, *steps) for _ in range(repeats + 1)]
        return made[1:]

    def close(self) -> None:
        self._module = self._call = None


def _named(torch: Any, answer: Any) -> dict[str, Any]:
    """One tensor, a tuple or a dict of them (or a dataclass-like mapping), by name."""
    if isinstance(answer, torch.Tensor):
        return {"output0": answer}
    if isinstance(answer, Mapping):
        return {str(key): value for key, value in answer.items() if isinstance(value, torch.Tensor)}
    if isinstance(answer, tuple | list):
        named = {f"output{i}": value for i, value in enumerate(answer) if isinstance(value, torch.Tensor)}
        if named:
            return named
    raise ModelError(f"The model answers with a {type(answer).__name__}, not with tensors.")


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
