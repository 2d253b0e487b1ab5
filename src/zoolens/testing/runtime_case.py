"""What the contracts of a runtime are tested with: a small model, a session of it, feeds, and how answers compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from zoolens.base.errors import ZoolensError
from zoolens.inventory.runtimes.fake import Fake
from zoolens.inventory.runtimes.runtime import ModelFiles, Runtime, Session, Tensor, Tensors
from zoolens.testing import models


class RuntimeCase:
    """One runtime with one small model of it."""

    runtime_class: ClassVar[type[Runtime]]
    tolerance: ClassVar[float] = 1e-4  # between batch sizes and modes, which may use other kernels
    quantised: ClassVar[bool] = False  # the model computes in integers, so float32 cannot be forced on it

    def model(self, tmp_path: Path) -> ModelFiles:
        """A small intact model of this runtime, written below `tmp_path`."""
        raise NotImplementedError

    def companion(self, tmp_path: Path) -> Session:
        """A session of another runtime, to be open at the same time."""
        return Fake().open(models.fake(tmp_path))

    # --- fixtures and helpers

    @pytest.fixture
    def files(self, tmp_path: Path) -> ModelFiles:
        return self.model(tmp_path)

    @pytest.fixture
    def runtime(self) -> Runtime:
        return self.runtime_class()

    @pytest.fixture(scope="class")
    def kept_sessions(self) -> Iterator[list[Session]]:
        """The session of `session`, once it is open; closed after the last test of the class."""
        kept: list[Session] = []
        yield kept
        for session in kept:
            session.close()

    @pytest.fixture
    def session(
        self, runtime: Runtime, kept_sessions: list[Session], tmp_path_factory: pytest.TempPathFactory
    ) -> Session:
        """One for all tests of the class that do not close it: whatever it has run before, it keeps the contract."""
        if not kept_sessions:
            kept_sessions.append(runtime.open(self.model(tmp_path_factory.mktemp("model"))))
        return kept_sessions[0]

    @staticmethod
    def feeds(session: Session, batch: int | None = None, seed: int = 0) -> Tensors:
        """Random feeds; `batch` None is the batch the model declares."""
        random = np.random.default_rng(seed)
        feeds: Tensors = {}
        for spec in session.inputs:
            shape = [extent or 1 for extent in spec.shape]
            shape[:1] = [batch or shape[0]] if shape else []
            if np.issubdtype(np.dtype(spec.dtype), np.integer):
                limits = np.iinfo(spec.dtype)
                feeds[spec.name] = random.integers(limits.min, limits.max, shape, dtype=spec.dtype, endpoint=True)
            else:
                feeds[spec.name] = random.random(shape).astype(spec.dtype)
        return feeds

    @staticmethod
    def other_shape(array: Tensor) -> Tensor:
        return np.zeros((*array.shape[:-1], array.shape[-1] + 1), array.dtype)

    @staticmethod
    def same(answers: Tensors, wanted: Tensors) -> None:
        assert answers.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(answers[name], array)

    def close_to(self, answers: Tensors, wanted: Tensors) -> None:
        for name, array in wanted.items():
            step = 1 if np.issubdtype(array.dtype, np.integer) else 0  # one quantisation step
            np.testing.assert_allclose(
                answers[name].astype(float), array.astype(float), rtol=self.tolerance, atol=self.tolerance + step
            )

    @staticmethod
    def reads_as_one_sentence(error: ZoolensError) -> None:
        text = str(error)
        assert "\n" not in text
        assert "Traceback" not in text
        assert 20 < len(text) < 700
