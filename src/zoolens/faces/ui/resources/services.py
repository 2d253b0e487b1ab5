"""/services: what happened while services were served, read from the store, also while they are being served."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import Field

from zoolens.base.errors import ZoolensError
from zoolens.base.present.charts import Spec, themed
from zoolens.base.present.figures import NOTHING, figure, percent
from zoolens.base.store.records import RunKind
from zoolens.faces.serving.monitoring.metrics import LATENCY_BUCKETS
from zoolens.faces.serving.services.event_groups import EventGroup, grouped_events
from zoolens.faces.serving.services.events import EventKind, Session, session_of
from zoolens.faces.serving.services.session_chart import session_chart, session_course
from zoolens.faces.serving.services.session_words import event_words, session_sentences
from zoolens.faces.ui.context import Context
from zoolens.faces.ui.endpoint import Answer, Endpoint, NotFound, Paged, Query, Shown
from zoolens.faces.ui.server_metrics import EndpointNow

_ACTIVE: Final = 90.0  # seconds; a busy server writes at least every minute
_MOST_GROUPS: Final = 100
_MOST_EVENTS: Final = 50  # of a group
_SECOND: Final = 1_000_000_000  # nanoseconds

State = Literal["active", "silent", "stopped"]


class ServicesQuery(Paged):
    limit: int = Field(20, ge=1, le=100)


class ServiceQuery(Query):
    session: str = Field(pattern="^[0-9a-f]{16}$", description="The id of a session's run.")


class ServiceSession(Answer):
    """One time that a service was served."""

    session: str
    service: Shown
    begun: datetime
    last: datetime
    state: State
    """Stopped, active (something was recorded within 90 seconds), or silent: it has no requests, or it ended without
    recording it."""
    answering: Shown
    """The model that answered last."""
    requests: int | None
    """Those that were answered and counted, which happens once a minute and at the end; refused ones are not among
    them. null where none were counted yet."""
    switches: int
    in_time: str


class ServiceList(Answer):
    total: int
    rows: list[ServiceSession]


class ServiceEvent(Answer):
    time: datetime
    kind: str
    words: Shown
    waiting: int


class ServiceEvents(Answer):
    """`count` events that differ in numbers alone, from `first` until `last`; the newest of them one by one."""

    kind: str
    words: Shown
    """Those of the newest."""
    count: int
    first: datetime
    last: datetime
    least_waiting: int
    most_waiting: int
    events: list[ServiceEvent]


class ServiceDetail(Answer):
    """A session with its sentences, its chart (Vega-Lite) and its events in groups of equal ones, the newest first, of
    `all_groups`."""

    summary: ServiceSession
    sentences: list[Shown]
    chart_title: Shown
    chart: Spec
    groups: list[ServiceEvents]
    all_groups: int
    all_events: int


class WatchedModel(Answer):
    """Who answers: answers a second, and percentiles of the time in the server, each "at most" so much."""

    model: Shown
    runtime: Shown
    rate: float
    rate_words: str
    p50: str
    p90: str
    p99: str


class WatchedEndpoint(Answer):
    name: Shown
    ready: bool
    waiting: int
    running: int
    rate_words: str
    refused_words: str
    models: list[WatchedModel]


class WatchedServer(Answer):
    """The server that the explorer was told to watch, over the last `seconds`. `address` is empty where it was told of
    none; `problem` says why it cannot be asked."""

    address: Shown
    problem: Shown
    seconds: float
    endpoints: list[WatchedEndpoint]


class WatchQuery(Query):
    pass


def watch(context: Context, _: WatchQuery) -> WatchedServer:
    if context.server is None:
        return WatchedServer(address="", problem="", seconds=0, endpoints=[])
    address = context.server.url
    try:
        now = context.server.now()
    except ZoolensError as error:
        return WatchedServer(address=address, problem=str(error), seconds=0, endpoints=[])
    return WatchedServer(
        address=address, problem="", seconds=now.seconds, endpoints=[_watched(endpoint) for endpoint in now.endpoints]
    )


def _watched(endpoint: EndpointNow) -> WatchedEndpoint:
    models = [
        WatchedModel.of(
            model,
            rate_words=f"{model.rate:,.1f}/s",
            p50=_at_most(model.percentiles.get(50)),
            p90=_at_most(model.percentiles.get(90)),
            p99=_at_most(model.percentiles.get(99)),
        )
        for model in endpoint.models
    ]
    rate, refused = f"{endpoint.rate:,.1f}/s", f"{endpoint.refused:,.1f}/s"
    return WatchedEndpoint.of(endpoint, rate_words=rate, refused_words=refused, models=models)


def _at_most(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"≤ {figure(seconds, 's')}" if math.isfinite(seconds) else f"> {figure(LATENCY_BUCKETS[-1], 's')}"


def services(context: Context, query: ServicesQuery) -> ServiceList:
    ids = context.store.run_ids(kind=RunKind.SERVING)
    runs = context.store.runs_of(ids[query.page])
    return ServiceList(total=len(ids), rows=[session_summary(session_of(context.store, run)) for run in runs])


def service(context: Context, query: ServiceQuery) -> ServiceDetail:
    runs = context.store.runs_of([query.session])
    if not runs or runs[0].kind is not RunKind.SERVING:
        raise NotFound(f"There is no session {query.session} of a service.")
    session = session_of(context.store, runs[0])
    chart = session_chart(session_course(session))
    groups = grouped_events(session.events)
    return ServiceDetail(
        summary=session_summary(session),
        sentences=session_sentences(session),
        chart_title=chart.title,
        chart=themed(chart),
        groups=[_events(group) for group in groups[:_MOST_GROUPS]],
        all_groups=len(groups),
        all_events=len(session.events),
    )


def _events(group: EventGroup) -> ServiceEvents:
    waiting = [event.waiting for event in group.events]
    return ServiceEvents(
        kind=group.kind,
        words=event_words(group.newest),
        count=len(group.events),
        first=_moment(group.events[0].time),
        last=_moment(group.newest.time),
        least_waiting=min(waiting),
        most_waiting=max(waiting),
        events=[
            ServiceEvent.of(event, time=_moment(event.time), words=event_words(event))
            for event in group.events[: -_MOST_EVENTS - 1 : -1]
        ],
    )


def session_summary(session: Session) -> ServiceSession:
    times = [row.time for rows in (session.events, session.answers, session.objectives) for row in rows]
    last = max(times, default=int(session.run.created.timestamp() * _SECOND))
    answering = [event.model for event in session.events if event.model]
    kept = session.kept
    timed = kept.requests + kept.refused if kept else 0
    return ServiceSession(
        session=session.run.id,
        service=session.service,
        begun=session.run.created,
        last=_moment(last),
        state=_state(session, last),
        answering=answering[-1] if answering else "",
        requests=sum(session.answered.values()) if session.answers or session.stopped else None,
        switches=sum(event.kind is EventKind.SWITCH for event in session.events),
        in_time=f"{percent(kept.within / timed, 2)} within {figure(kept.bound, 's')}" if kept and timed else "",
    )


def _state(session: Session, last: int) -> State:
    if session.stopped:
        return "stopped"
    return "active" if time.time() - last / _SECOND < _ACTIVE else "silent"


def _moment(nanoseconds: int) -> datetime:
    return datetime.fromtimestamp(nanoseconds / _SECOND, UTC)


ENDPOINTS: Final = (
    Endpoint("/services/server", "What the watched server does right now", watch),
    Endpoint("/services", "Times that services were served, newest first", services),
    Endpoint("/services/{session}", "One session: events, answers, chart", service),
)
