"""What a sandboxed worker needs: the files that it may read, and the environment variables that it is given.

Made in our own process. A worker reads its Python, the system's libraries, a few facts about the machine and the
model's own files; what else is in the user's home it neither reads nor finds in a variable.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from zoolens.base.engine.machine import memory_bytes
from zoolens.base.engine.sandbox import Policy
from zoolens.base.safety.untrusted import SECRET_NAME

if TYPE_CHECKING:
    from zoolens.base.engine.environments import Environment

# From this file's own place: `import zoolens` would import, for type checkers, everything that lies above this room.
_PACKAGE: Final = Path(__file__).absolute().parents[2] / "__init__.py"

# Programs and libraries; the few settings that libraries read; what tells a framework about processor and memory.
_SYSTEM: Final = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/gnu/store", "/System", "/Library",
    "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload",
    "/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/nsswitch.conf", "/etc/passwd", "/etc/group",
    "/etc/os-release", "/etc/debian_version", "/etc/mime.types", "/etc/OpenCL", "/etc/gai.conf", "/etc/host.conf",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime", "/proc/version",
    "/proc/filesystems", "/proc/cgroups", "/proc/devices", "/proc/vmstat", "/proc/zoneinfo", "/proc/sys",
    "/sys/devices", "/sys/fs/cgroup", "/sys/bus", "/sys/class", "/sys/kernel/mm",
    "/dev/zero", "/dev/random", "/dev/urandom",
)  # fmt: skip
_DRIVERS: Final = ("/proc/driver", "/proc/modules", "/sys/module", "/usr/local/nvidia", "/run/nvidia-persistenced")
_ALWAYS_USABLE: Final = ("/dev/null", "/dev/full")
_ACCELERATORS: Final = ("nvidia", "dri", "kfd", "accel", "davinci", "mali")  # beginnings of names in /dev

_VARIABLES: Final = frozenset(
    {
        "PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "TERM", "CC", "CXX", "CUDA_VISIBLE_DEVICES",
        "LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_FALLBACK_LIBRARY_PATH", "KERAS_BACKEND",
        "NPROC", "PYTHONHASHSEED", "PYTHONFAULTHANDLER", "PYTHONWARNINGS", "PYTHONUTF8", "PYTHONIOENCODING",
        "PYTHONNOUSERSITE", "PYTHONMALLOC", "PYTHONDONTWRITEBYTECODE",
    }
)  # fmt: skip
_FAMILIES: Final = (
    "LC_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "OPENBLAS_", "BLIS_", "VECLIB_", "NUMEXPR_", "MALLOC_",
    "TF_", "XLA_", "JAX_", "TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_", "ORT_", "OV_", "OPENVINO_",
    "OPENCV_", "TFLITE_", "MXNET_", "TBB_", "CUDA_", "NVIDIA_", "ROCR_", "HIP_",
)  # fmt: skip
_PLACE: Final = re.compile(r"CACHE|_HOME$|_DIR$|_PATH$")  # it has places of its own


@dataclass(frozen=True)
class Rights:
    """What a sandboxed worker may use in addition to what every worker may."""

    files: tuple[str, ...] = ()  # that it may read
    kept: str | None = None  # a folder that it may change and that outlives it: a compiler's cache
    programs: bool = False  # may it start other programs, such as a compiler?
    accelerated: bool = False  # may it use a GPU's devices?
    memory: int | None = None  # bytes; None: as much as the machine has


def worker_policy(scratch: Path, plugin: str, environment: Environment | None, rights: Rights) -> Policy:
    """Returns the sandbox of a worker that runs the module `plugin` with these rights."""
    needed = [*_SYSTEM, *python_paths(plugin, environment), *_library_paths(), *rights.files]
    devices = list(_ALWAYS_USABLE)
    memory = rights.memory
    if rights.accelerated:
        needed += _DRIVERS
        devices += _accelerators()
    elif memory is None:
        # Drivers of accelerators map more memory than there is: no limit for those.
        memory = memory_bytes()
    readable = [str(Path(path).absolute()) for path in needed]
    return Policy(
        str(scratch),
        tuple(dict.fromkeys(readable)),
        rights.kept,
        tuple(devices),
        programs=rights.programs,
        memory=memory,
        accelerated=rights.accelerated,
    )


def worker_variables(scratch: Path, around: Mapping[str, str]) -> dict[str, str]:
    """Returns those of the variables `around` us that steer frameworks, none that may hold a secret, and a home of its
    own."""
    passed = {name: value for name, value in around.items() if _harmless(name)}
    homes = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    return passed | dict.fromkeys(homes, str(scratch))


def lent_modules(plugin: str) -> dict[str, str]:
    """Returns the files of the packages that a worker may not find by itself: ours and the plug-in's."""
    lent = {"zoolens": str(_PACKAGE)}
    top = plugin.partition(".")[0]
    origin = importlib.import_module(top).__file__
    return lent | {top: str(Path(origin).absolute())} if origin else lent


def python_paths(plugin: str, environment: Environment | None) -> Iterator[str]:
    """Yields the folders and files that Python imports from."""
    yield from (sys.base_prefix, sys.base_exec_prefix)
    for file in lent_modules(plugin).values():
        yield str(Path(file).parent) if Path(file).name == "__init__.py" else file
    if environment is not None:
        yield str(environment.python.absolute().parent.parent)
        return
    yield from (sys.prefix, sys.exec_prefix)
    # The folder we were started in is no library, even if Python looks there too.
    yield from (entry for entry in sys.path if entry and Path(entry).absolute() != Path.cwd() and _narrow(entry))


def _harmless(name: str) -> bool:
    if name in _VARIABLES:
        return True
    return name.startswith(_FAMILIES) and not SECRET_NAME.search(name) and not _PLACE.search(name)


def _library_paths() -> list[str]:
    given = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [path for path in given if path and _narrow(path)]


def _narrow(folder: str) -> bool:
    """Whether a folder is neither the home folder nor above it: those hold more than libraries."""
    try:
        return not Path.home().resolve().is_relative_to(Path(folder).resolve())
    except RuntimeError:  # there is no home
        return Path(folder).resolve() != Path("/")


def _accelerators() -> list[str]:
    return [str(device) for device in Path("/dev").glob("*") if device.name.startswith(_ACCELERATORS)]
