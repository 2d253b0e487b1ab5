"""What was seen of a model when it was opened to look at it: kept, so that the next start need not open it.

A server opens every model that might be a tier in a sandboxed process, for its tensors and one answer to a made-up
input: a second or two each, 48 of 54 seconds of the start of three services. All that is seen depends on the files, the
manifest, the runtime and the machine, of which the name of a kept file is made. A file that cannot be read is made
again: the cache may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from zoolens.base.paths import cache_dir, replaced_file
from zoolens.base.store.records import fingerprint
from zoolens.base.version import __version__
from zoolens.findings.measure.jobs import Job
from zoolens.inventory.runtimes.isolation.worker import tensor_specs
from zoolens.inventory.runtimes.runtime import Effective, Session, Tensor, Tensors

_LAYOUT: Final = 1
_MOST_BYTES: Final = 1 << 26  # of answers; larger ones are asked for again
_ABOUT: Final = "about"


class LookedAt(Session):
    """A session of a model that is opened only for what nobody has seen of it yet. `opened`: it had to be."""

    elsewhere = True

    def __init__(self, job: Job) -> None:
        self._job, self._path = job, _path(job)
        self._session: Session | None = None
        self._answers: dict[str, Tensors] = {}
        self.phases = {}
        if not self._read():
            session = self._model()
            self.inputs, self.outputs, self.postprocessed = session.inputs, session.outputs, session.postprocessed

    @property
    def opened(self) -> bool:
        return self._session is not None

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        asked = _digest(feeds)
        if asked not in self._answers:
            answers = self._model().predict(feeds)
            # The session's memory is gone when it is closed.
            self._answers[asked] = {name: np.array(tensor) for name, tensor in answers.items()}
        return self._answers[asked]

    def effective(self) -> Effective:
        return self._model().effective()

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._keep()

    def _model(self) -> Session:
        if self._session is None:
            self._session = self._job.open_isolated()
        return self._session

    def _read(self) -> bool:
        """Take what is kept, if anything is."""
        try:
            with np.load(self._path, allow_pickle=False) as file:
                about = json.loads(file[_ABOUT].tobytes())
                self.inputs, self.outputs = tensor_specs(about["inputs"]), tensor_specs(about["outputs"])
                self.postprocessed = bool(about["postprocessed"])
                for asked, names in about["answers"].items():
                    self._answers[asked] = {name: file[f"{asked} {place}"] for place, name in enumerate(names)}
        except (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile):
            self._answers = {}
            return False
        return True

    def _keep(self) -> None:
        if sum(tensor.nbytes for answers in self._answers.values() for tensor in answers.values()) > _MOST_BYTES:
            return
        about: dict[str, Any] = {
            "inputs": [asdict(spec) for spec in self.inputs],
            "outputs": [asdict(spec) for spec in self.outputs],
            "postprocessed": self.postprocessed,
            "answers": {asked: list(answers) for asked, answers in self._answers.items()},
        }
        arrays = {
            f"{asked} {place}": tensor
            for asked, answers in self._answers.items()
            for place, tensor in enumerate(answers.values())
        }
        arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        # A cache that cannot be written, or answers that are no numbers, are no reason not to serve.
        with suppress(OSError, ValueError), replaced_file(self._path) as file:
            np.savez(file, allow_pickle=False, **arrays)


def _path(job: Job) -> Path:
    named = [_LAYOUT, __version__, job.model.fingerprint, job.stack.fingerprint]
    return cache_dir() / "looked-at" / f"{fingerprint(named)[:32]}.npz"


def _digest(feeds: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, tensor in sorted(feeds.items()):
        total.update(f"{name} {tensor.dtype.str} {tensor.shape} ".encode())
        total.update(np.ascontiguousarray(tensor).tobytes())
    return total.hexdigest()[:32]
