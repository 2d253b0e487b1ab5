"""CUDA kernels of our own: compiled by the NVRTC that comes with torch, which needs no compiler on the machine, and
launched on torch's current stream, so that a CUDA graph records them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

SOURCE: Final = "decoding.cu"
MOST_SHARED: Final = 48 << 10  # bytes of a block, without asking for more


_OVERLAPPING: Final = (
    9,
    0,
)  # compute capability from which a kernel may start while the one before runs
_SERIALIZATION: Final = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class KernelError(Exception):
    """Kernels cannot be compiled or launched here."""


class Kernels:
    """The kernels of the source, compiled for one device with these names defined."""

    def __init__(self, torch: Any, device: Any, names: tuple[tuple[str, int], ...]) -> None:
        self._torch, self._device = torch, device
        capability = torch.cuda.get_device_capability(device)
        self._overlap = capability >= _OVERLAPPING
        image = _compiled(_nvrtc(torch), capability, names)
        self._driver = _library("libcuda.so.1")
        self._module = ctypes.c_void_p()
        self._done(self._driver.cuModuleLoadData(ctypes.byref(self._module), image))
        self._functions: dict[str, ctypes.c_void_p] = {}

    def launch(
        self,
        name: str,
        grid: tuple[int, int],
        threads: int,
        shared: int,
        given: Sequence[Any],
    ) -> None:
        """`given`: tensors, None for no tensor, whole numbers (32 bits) and floats (32 bits)."""
        values = [_argument(self._torch, each) for each in given]
        places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = self._torch.cuda.current_stream(self._device).cuda_stream
        attribute = _Attribute(id=_SERIALIZATION, value=1)
        config = _Launch(
            *grid,
            1,
            threads,
            1,
            1,
            shared,
            stream,
            ctypes.pointer(attribute),
            int(self._overlap),
        )
        self._done(self._driver.cuLaunchKernelEx(ctypes.byref(config), self._function(name), places, None))

    def _function(self, name: str) -> ctypes.c_void_p:
        if name not in self._functions:
            found = ctypes.c_void_p()
            self._done(self._driver.cuModuleGetFunction(ctypes.byref(found), self._module, name.encode()))
            self._functions[name] = found
        return self._functions[name]

    def _done(self, status: int) -> None:
        if status:
            raise KernelError(f"the CUDA driver answers with error {status}")


@cache
def kernels(torch: Any, device: Any, names: tuple[tuple[str, int], ...]) -> Kernels:
    return Kernels(torch, device, names)


class _Attribute(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_int),
        ("", ctypes.c_int),
        ("value", ctypes.c_int),
        ("_rest", ctypes.c_char * 60),
    )


class _Launch(ctypes.Structure):
    _fields_ = (
        *((f"{kind}_{axis}", ctypes.c_uint) for kind in ("grid", "block") for axis in "xyz"),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def _argument(torch: Any, given: Any) -> Any:
    if given is None:
        return ctypes.c_void_p(None)
    if isinstance(given, torch.Tensor):
        return ctypes.c_void_p(given.data_ptr())
    return ctypes.c_float(given) if isinstance(given, float) else ctypes.c_int(given)


def _compiled(nvrtc: Any, capability: tuple[int, int], names: Sequence[tuple[str, int]]) -> bytes:
    """Machine code of the source for a compute capability."""
    source = resources.files(__package__).joinpath(SOURCE).read_bytes()
    options = [f"--gpu-architecture=sm_{capability[0]}{capability[1]}", "--std=c++17"]
    options += [f"-D{name}={value}" for name, value in names]
    program = ctypes.c_void_p()
    _checked(
        nvrtc,
        nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, SOURCE.encode(), 0, None, None),
    )
    try:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), given):
            log = _read(nvrtc, "ProgramLog", program).decode(errors="replace").splitlines()
            raise KernelError(f"NVRTC does not compile them: {log[0] if log else 'no reason given'}")
        return _read(nvrtc, "CUBIN", program)
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(nvrtc: Any, what: str, program: Any) -> bytes:
    size = ctypes.c_size_t()
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    found = ctypes.create_string_buffer(size.value)
    _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, found))
    return found.raw


def _checked(nvrtc: Any, status: int) -> None:
    if status:
        raise KernelError(f"NVRTC answers with error {status}")


def _nvrtc(torch: Any) -> Any:
    # Wheels of torch find NVRTC in another package, by a path in this library of theirs.
    with suppress(OSError):
        ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libcaffe2_nvrtc.so"))
    version = torch.version.cuda
    if version is None:
        # Devices of other makers are called cuda by torch, too.
        raise KernelError("this build of torch is not for CUDA")
    return _library(f"libnvrtc.so.{version.partition('.')[0]}")


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise KernelError(f"{name} is not found") from error
