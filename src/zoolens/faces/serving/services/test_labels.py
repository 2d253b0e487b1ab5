import numpy as np

from zoolens.faces.serving.services import labels
from zoolens.faces.serving.services.labels import AnswerMemory


def classes(*values):
    return np.array(values, np.int64)


def test_an_id_that_comes_again_is_another_request():
    memory = AnswerMemory()
    first = memory.add("1", "a", classes(3))
    second = memory.add("1", "b", classes(4))
    first.others["b"] = classes(3)
    assert memory.get("1") is second
    assert second.others == {}
    assert memory.take("1") is second
    assert memory.take("1") is None


def test_it_is_bounded_by_requests_rows_and_the_length_of_ids(monkeypatch):
    monkeypatch.setattr(labels, "MOST_REQUESTS", 3)
    monkeypatch.setattr(labels, "MOST_ROWS", 10)
    memory = AnswerMemory()
    assert memory.add("x" * 201, "a", classes(1)) is None
    assert memory.add("", "a", classes(1)) is None
    for number in range(5):
        memory.add(str(number), "a", classes(1))
    assert len(memory) == 3
    memory.add("large", "a", np.zeros(9, np.int64))
    assert len(memory) == 2  # rows count
    assert memory.get("large") is not None
