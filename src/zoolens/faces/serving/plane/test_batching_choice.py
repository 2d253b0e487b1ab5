"""Whether requests share batches: chosen by what is better for them, and chosen again when the load changes."""

from __future__ import annotations

import random

import pytest

from zoolens.faces.serving.plane.batching_choice import BatchingChoice


class Clients:
    """So many clients that each wait for their answer, with the rate that all get together and one by one."""

    def __init__(self, noise=0.0):
        self.sentences = []
        self.choice = BatchingChoice(self.sentences.append)
        self.now = 100.0
        self._random = random.Random(1)
        self._noise = noise

    def ask(self, seconds, clients, together, apart):
        """Ask for so long; the share of the requests that were answered in batches."""
        ends, shared, requests = self.now + seconds, 0, 0
        while self.now < ends:
            rate = (together if self.choice.together else apart) * self._random.lognormvariate(0.0, self._noise)
            self.now += 1 / rate
            shared += self.choice.together
            requests += 1
            self.choice.answered(self.now, 1, clients / rate)
        return shared / requests

    def pause(self, seconds):
        self.now += seconds


def test_what_answers_more_requests_is_chosen():
    clients = Clients()
    assert clients.ask(2, 8, together=1000, apart=1500) < 0.6  # it tries both
    assert not clients.choice.together
    assert clients.ask(20, 8, together=1000, apart=1500) == 0.0
    assert len(clients.sentences) == 1
    assert "one by one: 1,5" in clients.sentences[0]
    assert "each after 8 ms" in clients.sentences[0]


@pytest.mark.parametrize("apart", [500, 980, 1000, 1020])
def test_batches_win_what_is_as_good(apart):
    clients = Clients()
    clients.ask(2, 8, together=1000, apart=apart)
    assert clients.choice.together
    assert clients.ask(20, 8, together=1000, apart=apart) == 1.0
    assert not clients.sentences


def test_noise_does_not_hide_a_difference():
    clients = Clients(noise=0.5)
    clients.ask(5, 8, together=1000, apart=1300)
    assert clients.ask(20, 8, together=1000, apart=1300) == 0.0


def test_a_lone_client_is_no_load():
    clients = Clients()
    assert clients.ask(20, 1, together=1000, apart=1000) == 1.0


def test_another_load_is_tried_anew_and_a_known_one_is_remembered():
    clients = Clients()
    clients.ask(3, 4, together=1000, apart=1500)
    assert not clients.choice.together
    clients.ask(3, 32, together=4000, apart=1500)
    assert clients.choice.together
    assert clients.ask(20, 32, together=4000, apart=1500) == 1.0
    # One moment tells that the load is another one, and then what was found of it is used.
    assert clients.ask(3, 4, together=1000, apart=1500) < 0.1
    assert len(clients.sentences) == 3


def test_it_goes_back_to_batches_where_nobody_asks_any_more():
    clients = Clients()
    clients.ask(3, 8, together=1000, apart=1500)
    clients.pause(30)
    clients.ask(1, 1, together=1000, apart=1000)
    assert clients.choice.together


def test_it_is_tried_again_after_a_while_and_less_often_where_nothing_changes():
    clients = Clients()
    clients.ask(3, 8, together=1000, apart=1500)
    assert 0.0 < clients.ask(60, 8, together=1000, apart=1500) < 0.02
    assert clients.ask(100, 8, together=1000, apart=1500) == 0.0
    # The machine has become another one meanwhile.
    clients.ask(120, 8, together=2000, apart=1500)
    assert clients.choice.together


def test_requests_below_capacity_get_the_quicker_way():
    """Their rate is the same; what they share is a longer wait."""
    clients = Clients()
    for _ in range(2000):
        clients.now += 1 / 500
        clients.choice.answered(clients.now, 1, 0.008 if clients.choice.together else 0.002)
    assert not clients.choice.together
