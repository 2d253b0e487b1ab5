"""Training steps in torch: one by one, compiled, or recorded whole in a CUDA graph.

A loop is given an epoch's images and labels with `load`, then asked for the losses of some batches with `steps`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, first_line
from zoolens.inventory.runtimes.torch.torch_cuda import Transfers
from zoolens.training.crosstrain.training.job import Job
from zoolens.training.crosstrain.training.trainers.torch_optimizers import reset_state
from zoolens.training.pairs.live.torch.torch_step import TorchStep
from zoolens.training.pairs.networks.training_objects import TrainingObjects

Step = Callable[[Sequence[Any], Any], Any]
_WARM_UP: Final = 3  # steps outside the graph, so that libraries choose their kernels before it is recorded
# Kernels that cuDNN times for each convolution, the likeliest first: with torch's 10 the first epoch of a ResNet-50
# takes 13 s longer on an H200, and the next ones as long.
_TIMED_KERNELS: Final = 3


class Machine(TorchStep):
    """The step of a recipe on a device: images come as uint8, and the logits of half precision go to the loss in single
    precision."""

    def __init__(self, module: Any, objects: TrainingObjects, job: Job) -> None:
        import torch

        super().__init__(module, objects)
        self.torch, self.device = torch, job.device
        self.dtype = torch.float64 if job.recipe.precision == "float64" else torch.float32
        self._summed = job.semantics.reduction == "sum"
        self._transfers = None if job.device == "cpu" else Transfers(torch, torch.device(job.device))

    def answer(self, inputs: Sequence[Any]) -> Any:
        """Logits of uint8 images."""
        (images,) = inputs
        logits = self.forward(images.to(self.dtype).div_(255))
        return logits.float() if self.objects.precision else logits

    def descended(self, loss: Any, target: Any) -> Any:
        """The mean of the samples' losses is what is reported, whatever the gradient is of."""
        return loss * len(target) if self._summed else loss

    def forget_steps(self) -> None:
        """Optimizer and schedule begin anew."""
        reset_state(self.objects.optimizer)
        if self.objects.scheduler is not None:
            self.objects.scheduler.reset()

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> tuple[Any, Any]:
        """Places images on the device, uint8 as (batch, channels, height, width): in this order in a CPU's memory, with
        channels last in a GPU's, which is how its units take them."""
        torch = self.torch
        truth = torch.from_numpy(labels.astype(np.int64)).to(self.device)
        if self._transfers is not None:
            (there,) = self._transfers.moved([images])
            return there.permute(0, 3, 1, 2), truth
        there = torch.from_numpy(np.require(images, requirements=["C", "W"])).permute(0, 3, 1, 2)
        return there.contiguous(), truth

    @contextmanager
    def watched(self) -> Iterator[dict[str, Any]]:
        """Keep what each layer of the recipe's network answers, also where an addition of torch computes it: the
        network is run node by node."""
        activations: dict[str, Any] = {}

        class Watching(self.torch.fx.Interpreter):  # type: ignore[misc,name-defined]
            def run_node(self, node: Any) -> Any:
                value = super().run_node(node)
                if "layer" in node.meta:
                    activations[f"activation/{node.meta['layer']}"] = value
                return value

        self.forward = Watching(self.module).run
        try:
            yield activations
        finally:
            self.forward = self.module


class Loop(Protocol):
    def load(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None: ...

    def steps(self, parts: Sequence[slice]) -> Any:
        """A tensor with the mean loss of each batch; not waited for."""


class EagerLoop:
    """Step by step. `step`: for batches of `batch` samples, another than the machine's own."""

    def __init__(self, machine: Machine, batch: int = 0, step: Step | None = None) -> None:
        self._machine, self._batch, self._full_step = machine, batch, step or machine.step

    def load(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None:
        self._images, self._labels = self._machine.place(images, labels)

    def steps(self, parts: Sequence[slice]) -> Any:
        return self._machine.torch.stack([self._step(self._images[part], self._labels[part]) for part in parts])

    def _step(self, images: Any, labels: Any) -> Any:
        step = self._full_step if len(labels) == self._batch else self._machine.step
        return step((images,), labels)


def compiled_loop(machine: Machine, batch: int) -> EagerLoop:
    """The whole step compiled for full batches; a smaller last one would need a second compilation."""
    return EagerLoop(machine, batch, machine.torch.compile(machine.step, dynamic=False))


class GraphLoop:
    """The whole step recorded once: on every replay it takes the next batch from the epoch's data, which lie on the
    device, updates, and notes its loss. Python does nothing per batch but start it."""

    def __init__(self, machine: Machine, batch: int, count: int) -> None:
        torch = machine.torch
        self._machine, self._batch = machine, batch
        self._graph: Any = None
        self._rows = torch.arange(batch, device=machine.device)
        self._row = torch.zeros((), dtype=torch.int64, device=machine.device)
        self._number = torch.zeros(1, dtype=torch.int64, device=machine.device)
        self._losses = torch.zeros(-(-count // batch), dtype=torch.float64, device=machine.device)

    def load(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None:
        placed, truth = self._machine.place(images, labels)
        if self._graph is None:
            self._images, self._labels = placed, truth
            if len(truth) >= self._batch:
                self._record()
        else:
            self._images.copy_(placed)
            self._labels.copy_(truth)
        self._row.zero_()
        self._number.zero_()

    def steps(self, parts: Sequence[slice]) -> Any:
        first = parts[0].start // self._batch
        for number, part in enumerate(parts, start=first):
            if len(self._labels[part]) == self._batch:
                self._graph.replay()
            else:
                self._losses[number] = self._machine.step((self._images[part],), self._labels[part])
        return self._losses[first : first + len(parts)].clone()

    def _next_step(self) -> None:
        rows = self._row + self._rows
        with self._counting_at_once():
            loss = self._machine.step((self._images.index_select(0, rows),), self._labels.index_select(0, rows))
        self._losses.index_copy_(0, self._number, loss.double().view(1))
        self._row += self._batch
        self._number += 1

    @contextmanager
    def _counting_at_once(self) -> Iterator[None]:
        """Norms count their batches by a kernel each. Here one counts for all that make no use of the count."""
        norms = [module for module in self._machine.module.modules() if getattr(module, "momentum", None) is not None]
        counts = [(norm, getattr(norm, "num_batches_tracked", None)) for norm in norms]
        counted = [(norm, count) for norm, count in counts if count is not None]
        for norm, _ in counted:
            norm.num_batches_tracked = None
        try:
            yield
        finally:
            for norm, count in counted:
                norm.num_batches_tracked = count
        if counted:
            self._machine.torch._foreach_add_([count for _, count in counted], 1)

    def _record(self) -> None:
        torch = self._machine.torch
        with self._as_before():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP):
                    self._row.zero_()
                    self._number.zero_()
                    self._next_step()
            torch.cuda.current_stream().wait_stream(stream)
            self._row.zero_()
            self._number.zero_()
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._next_step()

    @contextmanager
    def _as_before(self) -> Iterator[None]:
        """Training starts from the weights, statistics, moments and random numbers it would have started from."""
        torch = self._machine.torch
        state = {name: value.clone() for name, value in self._machine.module.state_dict().items()}
        random = torch.cuda.get_rng_state()
        yield
        with torch.no_grad():
            for name, value in self._machine.module.state_dict().items():
                value.copy_(state[name])
            self._machine.forget_steps()
        torch.cuda.set_rng_state(random)


def make_loop(machine: Machine, kind: str, batch: int, count: int) -> Loop:
    if kind == "eager":
        return EagerLoop(machine)
    return compiled_loop(machine, batch) if machine.device == "cpu" else GraphLoop(machine, batch, count)


@contextmanager
def explained_compilation(torch: Any, kind: str, device: str) -> Iterator[None]:
    """A compiler that is not there or fails is the machine's fault, and there is another way."""
    if kind != "compiled" or device != "cpu":
        yield
        return
    try:
        yield
    except torch._dynamo.exc.TorchDynamoException as error:
        raise ModelError(
            f"torch.compile does not work here: {first_line(error)}.",
            hint="It needs a C++ compiler such as g++; or train with the loop eager.",
        ) from error
    except AssertionError as error:  # of the code that torch's compiler wrote: strides of a convolution on ARM
        if "torchinductor" not in traceback.extract_tb(error.__traceback__)[-1].filename:
            raise
        raise ModelError(
            f"Code that torch.compile wrote fails on this processor: {first_line(error)}.",
            hint="This is a fault of torch. Train with the loop eager.",
        ) from error
    finally:
        torch._dynamo.reset()  # the next job's network is another one


@contextmanager
def arithmetic(torch: Any, precision: str, device: str, threads: int | None) -> Iterator[None]:
    """Threads and TF32 are one setting for the process: lent to one job, put back after it. So is oneDNN, which torch
    switches off for good when it fails, as in bfloat16 on a processor without it: the next job would compute otherwise.
    """
    matmul, cudnn, onednn = torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mkldnn
    before = torch.get_num_threads(), onednn.enabled, matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    timed = cudnn.benchmark_limit  # None, which cannot be set, where torch has no cuDNN
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with nullcontext() if device == "cpu" else torch.cuda.device(device):
            if device != "cpu":
                matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
                cudnn.benchmark, cudnn.benchmark_limit = True, _TIMED_KERNELS
            yield
    finally:
        torch.set_num_threads(before[0])
        onednn.enabled, matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before[1:]
        if timed is not None:
            cudnn.benchmark_limit = timed
