"""Which arm a request belongs to. `make mutants` runs these."""

import hashlib

import pytest

from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.services.definition import Service
from zoolens.faces.serving.services.splits import hashed_share, split_rung

ARMS = {"zoo:a": 1, "zoo:b": 2, "zoo:c": 3}
SPLITS = (
    {"model": "zoo:a", "weight": 0.2},
    {"model": "zoo:b", "weight": 0.3},
    {"model": "zoo:c", "header": {"name": "X-Arm", "value": "new"}},
)


def service(**more):
    return Service.model_validate({"reference": "zoo:ref", "within": 0.9, "splits": SPLITS, **more})


def request(key="", **headers):
    return InferRequest("images", {}, id=key, headers={name.replace("_", "-"): text for name, text in headers.items()})


def keys_between(low, high, count=20):
    keys = (f"key-{place}" for place in range(10_000))
    found = [key for key in keys if low <= hashed_share("images", key) < high]
    return found[:count]


@pytest.mark.parametrize(("low", "high", "rung"), [(0.0, 0.2, 1), (0.2, 0.5, 2), (0.5, 1.0, None)])
def test_each_arm_has_its_own_stretch_of_the_hashes(low, high, rung):
    for key in [*keys_between(low, high), *keys_between(low, low + 0.01, 3), *keys_between(high - 0.01, high, 3)]:
        assert split_rung("images", service(), ARMS, request(key)) == rung


def test_a_header_comes_first():
    key = keys_between(0.0, 0.2)[0]
    assert split_rung("images", service(), ARMS, request(key, x_arm="new")) == 3
    assert split_rung("images", service(), ARMS, request(key, x_arm="other")) == 1
    assert split_rung("images", service(), ARMS, request(key, x_other="new")) == 1


def test_an_arm_whose_model_cannot_answer_has_no_rung():
    key = keys_between(0.0, 0.2)[0]
    assert split_rung("images", service(), {"zoo:b": 2}, request(key)) is None
    assert split_rung("images", service(), {"zoo:b": 2}, request(key, x_arm="new")) is None


def test_a_request_sticks_by_its_header_then_by_its_id():
    first, second = keys_between(0.0, 0.2)[0], keys_between(0.2, 0.5)[0]
    sticky = service(sticky="X-User")
    assert split_rung("images", sticky, ARMS, request(second, x_user=first)) == 1
    assert split_rung("images", sticky, ARMS, request(second)) == 2
    assert split_rung("images", service(), ARMS, request(second, x_user=first)) == 2


def test_without_a_key_chance_decides():
    given = {split_rung("images", service(), ARMS, request()) for _ in range(2_000)}
    assert given == {None, 1, 2}


def test_the_share_is_the_hash_of_service_and_key():
    """Servers of one service must agree, also after an update: the arm of a user stays."""
    digest = hashlib.blake2b(b"images\0user-1", digest_size=4).digest()
    assert hashed_share("images", "user-1") == int.from_bytes(digest, "big") / 2**32
    assert hashed_share("other", "user-1") != hashed_share("images", "user-1")


def test_every_arm_begins_where_the_one_before_ends():
    weights = [{"model": f"zoo:{name}", "weight": weight} for name, weight in (("a", 0.2), ("b", 0.3), ("c", 0.4))]
    three = service(splits=weights)
    for low, high, rung in ((0.2, 0.5, 2), (0.5, 0.9, 3), (0.9, 1.0, None)):
        assert {split_rung("images", three, ARMS, request(key)) for key in keys_between(low, high, 200)} == {rung}
