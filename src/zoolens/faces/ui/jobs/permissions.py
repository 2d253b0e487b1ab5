"""Which models, data and runtimes a job may name.

Whoever can use the explorer can start jobs. What has a name of its own in a zoo or in the store may be used; a file may
be used only if it lies in a folder that the user allowed when the server was started, wherever links lead. Runtimes
with an address, which would make this machine connect to others, may not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl

from zoolens.base import plugins
from zoolens.faces.ui.endpoint import RequestError
from zoolens.inventory.catalog.names import is_run, parse
from zoolens.inventory.datasets.kinds import kind_names

_LONGEST = 1000
_DEMO = "Use the built-in dataset (demo)"


def check_model(model: str, allowed: Sequence[Path]) -> None:
    """Refuse what is neither zoo:name, nor a file in an allowed folder."""
    _check_text(model)
    zoo = parse(model).zoo
    if zoo is None or zoo not in plugins.names(plugins.ZOOS):
        _check_path(model, allowed, "model", "Name it zoo:name")


def check_subject(subject: str, allowed: Sequence[Path]) -> None:
    """Check a model that may also be named by a stored run, or as MODEL@RUNTIME."""
    _check_text(subject)
    if is_run(subject):
        return
    model, at, stack = subject.rpartition("@")
    if at and stack.partition(":")[0] in plugins.names(plugins.RUNTIMES):
        check_runtime(stack.partition(":")[0])
        check_model(model, allowed)
    else:
        check_model(subject, allowed)


def check_runtime(runtime: str) -> None:
    """Refuse a runtime that is not one of this machine's."""
    if runtime == "remote" or runtime not in plugins.names(plugins.RUNTIMES):
        raise RequestError(f"A job cannot use the runtime {runtime[:100]!r}.", status=403)


def check_data(data: str, allowed: Sequence[Path]) -> None:
    """Refuse data that are neither built in, nor in an allowed folder; options may name files as well."""
    _check_text(data)
    place, _, options = data.partition("?")
    kind, colon, location = place.partition(":")
    # Its parts have names of letters alone, so that none is a path.
    if kind == "demo" and (not location or location.isalpha()) and not options:
        return
    known = colon and kind in kind_names()
    own = location if known else place
    _check_path(own, allowed, "dataset", _DEMO)
    for _, value in parse_qsl(options):
        named = "/" in value or "\\" in value or ".." in value
        if named and not _lies_beside(value, Path(own), allowed):
            _check_path(value, allowed, "dataset", _DEMO)


def check_folder(text: str, allowed: Sequence[Path]) -> Path:
    """The folder of this path, which lies in an allowed one."""
    _check_text(text)
    _check_path(text, allowed, "folder", "Name a folder that the explorer may read")
    folder = Path(text).resolve()
    if not folder.is_dir():
        raise RequestError(f"There is no folder {text[:200]!r}.", status=404)
    return folder


def _lies_beside(value: str, own: Path, allowed: Sequence[Path]) -> bool:
    """Whether an option names something by its way from the dataset, such as masks=train/masks, in an allowed folder.

    Some kinds look from the working directory: what is there under the same name must be allowed as well.
    """
    way = Path(value.partition("#")[0])
    if way.is_absolute() or ".." in way.parts:
        return False
    there = [place / way for place in (own, own.parent, Path.cwd()) if (place / way).exists()]
    return bool(there) and all(_is_inside(path, allowed) for path in there)


def _check_text(text: str) -> None:
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise RequestError("A name has 1 to 1,000 printable characters.")


def _check_path(text: str, allowed: Sequence[Path], what: str, instead: str) -> None:
    path = Path(text)
    if not (path.is_absolute() and _is_inside(path, allowed)):
        raise RequestError(
            f"A job may not read the {what} {text[:200]!r}.",
            status=403,
            hint=f"{instead}, or start the explorer with --allow FOLDER and give the whole path of a file in it.",
        )


def _is_inside(path: Path, allowed: Sequence[Path]) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in allowed)
