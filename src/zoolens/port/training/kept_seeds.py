"""Seeds of a paired training that are done, kept in the store so that they are not trained again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zoolens.port.check import OpenPair
from zoolens.port.training.single_run import Length
from zoolens.port.training.sources import BatchSource
from zoolens.store.store import Store

if TYPE_CHECKING:
    from zoolens.port.training.paired import SeedPair


class KeptSeeds:
    """Not yet kept."""

    @classmethod
    def of(cls, store: Store, pair: OpenPair, source: BatchSource, length: Length, own_init: bool) -> KeptSeeds | None:
        return None

    def read(self, seed: int) -> SeedPair | None:
        return None

    def write(self, found: SeedPair) -> None: ...
