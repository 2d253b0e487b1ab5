from zoolens.faces.serving.services.event_groups import grouped_events
from zoolens.faces.serving.services.events import EventKind, ServiceEvent


def switch(reason, model, previous, time):
    return ServiceEvent(EventKind.SWITCH, reason, model, previous, time=time)


def test_events_that_differ_in_numbers_alone_are_one_group():
    events = [
        ServiceEvent(EventKind.START, "It begins.", model="large", time=1),
        switch("p99 is 12.5 ms, more than 10", "small", "large", 2),
        switch("p99 is 3 ms", "large", "small", 3),
        switch("p99 is 1,200 ms, more than 10", "small", "large", 4),
    ]
    groups = grouped_events(reversed(events))
    assert [[event.time for event in group.events] for group in groups] == [[2, 4], [3], [1]]
    assert groups[0].newest.reason == "p99 is 1,200 ms, more than 10"
    assert groups[-1].kind is EventKind.START


def test_other_models_other_kinds_and_other_words_are_apart():
    events = [
        switch("the queue is long", "small", "large", 1),
        switch("the queue is long", "tiny", "large", 2),
        switch("the machine is slow", "small", "large", 3),
        ServiceEvent(EventKind.OBJECTIVE, "the queue is long", "small", "large", time=4),
    ]
    assert len(grouped_events(events)) == 4
    assert grouped_events([]) == []
