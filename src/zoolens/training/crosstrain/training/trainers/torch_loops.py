"""Training steps in torch: one by one, compiled, or recorded whole in a CUDA graph.

A loop is given an epoch's images and labels with `load`, then asked for the losses of some batches with `steps`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from zoolens.base.errors import ModelError, first_line
from zoolens.training.crosstrain.training.trainers.torch_losses import Loss
from zoolens.training.crosstrain.training.trainers.torch_optimizers import reset_state
from zoolens.training.crosstrain.training.trainers.torch_schedule import RateTable

_WARM_UP: Final = 3  # steps outside the graph, so that libraries choose their kernels before it is recorded


class Machine:
    """A network with its optimizer on a device, and how numbers are computed there."""

    def __init__(
        self,
        module: Any,
        optimizer: Any,
        device: str,
        precision: str,
        loss: Loss,
        *,
        summed: bool = False,
        rates: RateTable | None = None,
    ) -> None:
        """`summed`: the gradient is that of the sum of the samples' losses, not of their mean. `rates`: where they
        change."""
        import torch

        self.torch, self.module, self.optimizer, self.device = torch, module, optimizer, device
        self.dtype = torch.float64 if precision == "float64" else torch.float32
        self.mixed = precision == "bfloat16"
        self._loss, self._summed, self._rates = loss, summed, rates

    def step(self, images: Any, labels: Any) -> Any:
        """One update; the mean loss of the batch before it."""
        loss = self.loss(self.module, images, labels)
        self.backward(loss, len(labels))
        self.update()
        return loss.detach()

    def update(self) -> None:
        """Change the parameters by their gradients, at the learning rate of this step."""
        if self._rates is not None:
            self._rates.advance()
        self.optimizer.step()

    def forget_steps(self) -> None:
        """Optimizer and schedule begin anew."""
        reset_state(self.optimizer)
        if self._rates is not None:
            self._rates.reset()

    def backward(self, loss: Any, samples: int) -> None:
        """New gradients from the mean loss of so many samples."""
        self.optimizer.zero_grad()
        (loss * samples if self._summed else loss).backward()

    def loss(self, forward: Callable[[Any], Any], images: Any, labels: Any) -> Any:
        return self._loss(self.answer(forward, images), labels)

    def answer(self, forward: Callable[[Any], Any], images: Any) -> Any:
        """Logits of uint8 images."""
        scaled = images.to(self.dtype).div_(255)
        if not self.mixed:
            return forward(scaled)
        with self._autocast():
            logits = forward(scaled)
        return logits.float()

    def place(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> tuple[Any, Any]:
        """Places images on the device, uint8 as (batch, channels, height, width): in this order in a CPU's memory, with
        channels last in a GPU's, which is how its units take them."""
        torch = self.torch
        there = torch.from_numpy(np.require(images, requirements=["C", "W"])).to(self.device).permute(0, 3, 1, 2)
        there = there.contiguous() if self.device == "cpu" else there
        return there, torch.from_numpy(labels.astype(np.int64)).to(self.device)

    def _autocast(self) -> AbstractContextManager[Any]:
        context: AbstractContextManager[Any] = self.torch.autocast(self.device.partition(":")[0], self.torch.bfloat16)
        return context


class Loop(Protocol):
    def load(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None: ...

    def steps(self, parts: Sequence[slice]) -> Any:
        """A tensor with the mean loss of each batch; not waited for."""


class EagerLoop:
    """Step by step. `step`: for batches of `batch` samples, another than the machine's own."""

    def __init__(self, machine: Machine, batch: int = 0, step: Callable[[Any, Any], Any] | None = None) -> None:
        self._machine, self._batch, self._full_step = machine, batch, step or machine.step

    def load(self, images: NDArray[np.uint8], labels: NDArray[np.int32]) -> None:
        self._images, self._labels = self._machine.place(images, labels)

    def steps(self, parts: Sequence[slice]) -> Any:
        return self._machine.torch.stack([self._step(self._images[part], self._labels[part]) for part in parts])

    def _step(self, images: Any, labels: Any) -> Any:
        step = self._full_step if len(labels) == self._batch else self._machine.step
        return step(images, labels)


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
                self._losses[number] = self._machine.step(self._images[part], self._labels[part])
        return self._losses[first : first + len(parts)].clone()

    def _next_step(self) -> None:
        rows = self._row + self._rows
        loss = self._machine.step(self._images.index_select(0, rows), self._labels.index_select(0, rows))
        self._losses.index_copy_(0, self._number, loss.double().view(1))
        self._row += self._batch
        self._number += 1

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
    if precision == "tf32" and device == "cpu":
        raise ModelError("A CPU has no TF32.", hint="Use precision: float32, or a GPU.")
    matmul, cudnn, onednn = torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mkldnn
    before = torch.get_num_threads(), onednn.enabled, matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        with nullcontext() if device == "cpu" else torch.cuda.device(device):
            if device != "cpu":
                matmul.allow_tf32 = cudnn.allow_tf32 = precision == "tf32"
                cudnn.benchmark = True
            yield
    finally:
        torch.set_num_threads(before[0])
        onednn.enabled, matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark = before[1:]
