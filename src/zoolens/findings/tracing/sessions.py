"""Models of an application on its timeline: every prediction of a traced session is a span of the recording.

    with zoolens.open_session("demo:lenet-wide") as opened, recording("my service"):
        classifier = traced(opened, "classifier")
        with zoolens.span("request"):
            classifier.predict(…)

Several models that answer one request stand below each other in it, whatever runtime each of them is in. A model behind
a server is given the `traceparent` of its span, so that what the server logs belongs to the same trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zoolens.findings.tracing.recorder import span, traceparent
from zoolens.findings.tracing.spans import Level
from zoolens.inventory.runtimes.devices import DeviceTimes
from zoolens.inventory.runtimes.observing import Captured, CapturePoint, Profile
from zoolens.inventory.runtimes.runtime import Effective, Session, Tensor, Tensors

IN_WORKER = "in the worker"


def traced(session: Session, name: str) -> Session:
    """Wrap a session so that each prediction becomes a span of this name; outside of a recording it only predicts."""
    return _TracedSession(session, name)


class _TracedSession(Session):
    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name
        self.inputs, self.outputs = session.inputs, session.outputs
        self.phases = getattr(session, "phases", {})
        self.sandbox, self.elsewhere = session.sandbox, session.elsewhere
        self.largest_batch, self.postprocessed = session.largest_batch, session.postprocessed

    def predict(self, feeds: Mapping[str, Tensor]) -> Tensors:
        session = self._session
        with span(self._name, "predict", level=Level.MODEL) as step:
            session.traceparent = traceparent()
            answers = session.predict(feeds)
            self.last_predict_seconds = session.last_predict_seconds
            if session.elsewhere and session.last_predict_seconds is not None:
                step.add_part(IN_WORKER, "predict", session.last_predict_seconds)
        return answers

    def effective(self) -> Effective:
        return self._session.effective()

    def count_parameters(self) -> int:
        return self._session.count_parameters()

    def profile(self, feeds: Mapping[str, Tensor], repeats: int = 1, *, kernels: bool = False) -> list[Profile]:
        return self._session.profile(feeds, repeats, kernels=kernels)

    def capture_points(self) -> tuple[CapturePoint, ...]:
        return self._session.capture_points()

    def capture(self, feeds: Mapping[str, Tensor], names: Sequence[str]) -> Captured:
        return self._session.capture(feeds, names)

    def device_times(self, feeds: Mapping[str, Tensor], repeats: int = 1) -> list[DeviceTimes]:
        return self._session.device_times(feeds, repeats)

    def close(self) -> None:
        self._session.close()
