"""What a runtime is called: the name of a plug-in, or of one that is somewhere with its address, as name:address."""

from __future__ import annotations

from typing import Any, NamedTuple

from zoolens.base import plugins
from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.runtime import Runtime


class RuntimeName(NamedTuple):
    name: str
    address: str = ""


def parse_runtime(text: str) -> RuntimeName:
    """The parts of what a user wrote, such as `onnxruntime` or `remote:http://host:8000`."""
    name, _, address = text.partition(":")
    return RuntimeName(name, address)


def runtime_named(text: str) -> Runtime:
    """Returns the runtime of a name; ZoolensError if it is unknown or its address is missing or invalid."""
    name, address = parse_runtime(text)
    kind: Any = plugins.load(plugins.RUNTIMES, name)
    if kind.addressed is None:
        if address:
            raise ZoolensError(f"The runtime {name} has no address.", hint=f"Write --runtime {name}.")
        runtime: Runtime = kind()
        return runtime
    if not address:
        raise ZoolensError(
            f"The runtime {name} needs an address.", hint=f"Write --runtime {name}:ADDRESS with {kind.addressed}."
        )
    elsewhere: Runtime = kind(address)
    return elsewhere


def installed_runtimes() -> list[str]:
    """Returns the names of the runtimes that need no address."""
    return [name for name in plugins.names(plugins.RUNTIMES) if not _needs_address(name)]


def _needs_address(name: str) -> bool:
    try:
        return plugins.load(plugins.RUNTIMES, name).addressed is not None
    except (ZoolensError, AttributeError):
        # Whoever uses it gets an error that says what is wrong.
        return False
