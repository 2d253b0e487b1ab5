"""What a bundle must not tell: folders, names of this machine and of its user, private servers, runs left out."""

from __future__ import annotations

import getpass
import platform
import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

from zoolens.base import plugins
from zoolens.base.paths import cache_dir, data_dir
from zoolens.base.present.text import without_folders

OTHER_RUN: Final = "(another run)"
_ID: Final = re.compile(r"(?<![0-9a-zA-Z])[0-9a-f]{16}(?![0-9a-zA-Z])|(?<![0-9a-zA-Z])[0-9a-f]{8}(?![0-9a-zA-Z])")
_QUOTED_SLASH: Final = "%2F"
_SHORT: Final = 8  # digits of an id where it is only shown
_HOST: Final = re.compile(r"(?<=://)(?:[^\s/@'\"]+@)?(\[[0-9a-fA-F:.]+\]|[\w.-]+)")
_PRIVATE: Final = (".local", ".lan", ".internal", ".intranet", ".corp", ".home", ".localdomain")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_LEAST: Final = 3  # letters of a name that is searched for
# Names of users and machines that are also plain words: to replace them would change what the figures are about.
_WORDS: Final = frozenset({
    "admin", "build", "cpu", "data", "debian", "docker", "gpu", "guest", "home", "host", "local", "localhost", "main",
    "model", "models", "nobody", "runner", "root", "server", "system", "test", "ubuntu", "user", "work", "worker",
})  # fmt: skip
_SCHEMA: Final = "$schema"  # a field of every chart
_SHOWN_BY_CHARTS: Final = frozenset({"values", "datasets", "title", "subtitle", "description", "text", "domain"})
_GROUPS: Final = (plugins.ZOOS, plugins.RUNTIMES, plugins.DATASETS, plugins.METRICS)


class Redaction:
    """Use `text` for a text and `data` for everything in an answer. What is the same before is the same after it, so
    that names of requests and the links to them still fit."""

    def __init__(self, unchosen: Collection[str], folders: Collection[Path] = ()) -> None:
        """`unchosen`: ids of the runs that are not in the bundle. `folders`: those that the others name."""
        self._ids = {*unchosen, *(run_id[:_SHORT] for run_id in unchosen)}
        private = {str(folder.absolute()) for folder in (*_folders(), *folders)}
        self._folders = sorted(private, key=len, reverse=True)
        self._names = [
            (re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE), word)
            for name, word in _names()
        ]
        self.text = lru_cache(1 << 16)(self._text)

    def data(self, value: Any) -> Any:
        """Plain data with every text in it made fit to be passed on."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.data(member) for member in value]
        if not isinstance(value, dict):
            return value
        if _SCHEMA in value:
            return self._chart(value)
        return {self._without_paths(name): self.data(member) for name, member in value.items()}

    def _chart(self, value: Any) -> Any:
        """A Vega-Lite spec. Its words are a language, in which a user's name such as Max has a meaning; what it shows
        is treated like everything else."""
        if isinstance(value, str):
            return self._without_paths(value)
        if isinstance(value, list):
            return [self._chart(member) for member in value]
        if not isinstance(value, dict):
            return value
        return {
            self._without_paths(name): self.data(member) if name in _SHOWN_BY_CHARTS else self._chart(member)
            for name, member in value.items()
        }

    def _text(self, text: str) -> str:
        text = self._without_paths(text)
        for pattern, word in self._names:
            text = pattern.sub(word, text)
        return _ID.sub(lambda match: OTHER_RUN if match[0] in self._ids else match[0], text) if self._ids else text

    def _without_paths(self, text: str) -> str:
        if "/" not in text and "\\" not in text and _QUOTED_SLASH not in text:
            return text
        text = self._without_folders(text)
        return _HOST.sub(_public_host, without_folders(text))

    def _without_folders(self, text: str) -> str:
        """The text without the folders that are known, also where they are the option of an address."""
        for folder in self._folders:
            if folder in text:
                text = text.replace(f"{folder}/", "").replace(folder, Path(folder).name)
            if _QUOTED_SLASH in text and (quoted := quote_plus(folder)) in text:
                text = text.replace(f"{quoted}{_QUOTED_SLASH}", "").replace(quoted, quote_plus(Path(folder).name))
        return text


def _folders() -> Iterator[Path]:
    """Folders of this user that may stand in a text in a way that is not seen to be a path."""
    for folder in (data_dir(), cache_dir(), Path.home(), Path.cwd()):
        if len(folder.parts) > 1:
            yield folder


def _names() -> Iterator[tuple[str, str]]:
    """What this machine and its user are called, and what stands in its place."""
    known = {name.lower() for group in _GROUPS for name in plugins.names(group)} | _WORDS
    machine = platform.node()
    for name, word in ((machine, "host"), (machine.partition(".")[0], "host"), (_user(), "user")):
        if len(name) >= _LEAST and name.lower() not in known:
            yield name, word


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container whose user has no name.
        return ""


def _public_host(match: re.Match[str]) -> str:
    """The host of an address, unless only a private network knows it. Who logs in there is nobody's business."""
    host = match[1]
    if host in _LOOPBACK:
        return host
    try:
        ip_address(host.strip("[]"))
        private = True
    except ValueError:
        private = "." not in host or host.lower().endswith(_PRIVATE)
    return "host" if private else host
