"""Conversations in, texts out: our side of the sandboxed process that renders a chat template."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from zoolens.base.engine.policy import Rights
from zoolens.base.engine.process import WorkerKind, WorkerProcess
from zoolens.base.errors import DatasetError, ManifestError, WorkerError, WorkerTimeout
from zoolens.inventory.manifests.chat_template import ChatTemplate
from zoolens.inventory.preprocess import chat_worker
from zoolens.inventory.preprocess.tokenizer_client import MAX_TEXT

_OPENING: Final = 60.0  # seconds
_RENDERING: Final = 10.0
_MODULE: Final = chat_worker.__name__
_KIND: Final = WorkerKind(
    "process that renders chat templates", _MODULE, _MODULE, rights=Rights(memory=chat_worker.MEMORY)
)

ChatMessage = Mapping[str, Any]  # plain data: role, content and whatever else the template reads


class ChatRenderer:
    """A chat template in a process of its own, which ends with this object or with `close`. Threads may share it."""

    def __init__(self, declared: ChatTemplate, *, seconds: float = _RENDERING) -> None:
        """`seconds`: the longest that one conversation may take."""
        self._declared, self._seconds = declared, seconds
        self._lock = threading.Lock()
        self._worker = self._started()

    def render(self, messages: Sequence[ChatMessage], *, answer: bool) -> str:
        """The text of a conversation. `answer`: it ends where the model's next message begins. DatasetError where the
        template refuses the conversation or takes too long for it."""
        values = {**self._declared.tokens, "messages": list(messages), "tools": None, "documents": None}
        asked = {"do": "render", "values": {**values, "add_generation_prompt": answer}, "most": MAX_TEXT}
        doing = "rendering a chat template"
        with self._lock:
            if not self._worker.running:
                self._worker = self._started()
            try:
                text = self._worker.ask(asked, doing, timeout=self._seconds)
            except WorkerTimeout as error:
                raise DatasetError(
                    f"The chat template takes longer than {self._seconds:g} s for a conversation.",
                    hint="A loop in it may never end.",
                ) from error
            except WorkerError:
                # It may have ended.
                self._worker.stop()
                raise
            if not isinstance(text, str) or len(text) > MAX_TEXT:
                raise self._worker.nonsense(ValueError("no text"))
        return text

    def close(self) -> None:
        self._worker.stop()

    def _started(self) -> WorkerProcess:
        worker = WorkerProcess(_KIND)
        asked = {"do": "open", "template": self._declared.template}
        try:
            worker.ask(asked, "reading a chat template", timeout=_OPENING)
        except WorkerTimeout as error:
            raise ManifestError(f"The chat template takes longer than {_OPENING:g} s to be read.") from error
        except BaseException:
            worker.stop()
            raise
        return worker
