"""Which arm of a split a request belongs to: always the same one for the same key."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Final

from zoolens.base.protocol.messages import InferRequest
from zoolens.faces.serving.services.definition import Service

_HASHES: Final = 1 << 32  # different hashes of four bytes


def split_rung(name: str, service: Service, arms: Mapping[str, int], request: InferRequest) -> int | None:
    """The tier of the arm that a request belongs to, first by its headers; None where it belongs to none, or where the
    arm's model cannot answer."""
    for split in service.splits:
        if split.header is not None and request.headers.get(split.header.name.lower()) == split.header.value:
            return arms.get(split.model)
    place = hashed_share(name, _sticky_key(request, service.sticky))
    begin = 0.0
    for split in service.splits:
        weight = split.weight or 0.0
        if begin <= place < begin + weight:
            return arms.get(split.model)
        begin += weight
    return None


def hashed_share(service: str, key: str) -> float:
    """A number from 0 to 1 that is always the same for the same key."""
    # Not Python's hash(), which differs from process to process: all servers of a service must agree, also after an
    # update.
    digest = hashlib.blake2b(f"{service}\0{key}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") / _HASHES


def _sticky_key(request: InferRequest, header: str | None) -> str:
    """What a request is split by: the named header where it has one, else its id, else chance."""
    value = request.headers.get(header.lower()) if header else None
    return value or request.id or str(time.perf_counter_ns())
