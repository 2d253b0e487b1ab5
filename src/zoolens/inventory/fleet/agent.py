"""An agent: it says in the store what its machine has, and that it still lives, until it is stopped."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final
from uuid import uuid4

from zoolens.base.engine.executors.at_work import jobs_at_work
from zoolens.base.errors import StoreError, ZoolensError
from zoolens.base.store.agents import LONGEST_LEASE, AgentRecord, publish_agent, remove_agent, renew_agent
from zoolens.base.store.database import Database
from zoolens.inventory.fleet.agent_facts import AgentFacts, changing_facts

LEASE: Final = 30.0  # seconds
_BEATS: Final = 3  # in one lease, so that a single one that is late loses nothing


class Agent:
    """One start. Use `run` in the thread that may wait, and set `stop` from another or from a signal's handler."""

    def __init__(self, database: Database, facts: AgentFacts, *, name: str = "", lease: float = LEASE) -> None:
        if not 0 < lease <= LONGEST_LEASE:
            raise ZoolensError(f"A lease of {lease:g} s makes no sense.", hint="Give seconds, at most a day of them.")
        self._database, self._facts, self._lease = database, facts, lease
        self.name = name or platform.node()
        self.id = uuid4().hex
        self.stop = threading.Event()

    def publish(self) -> None:
        """Puts this machine on the list."""
        record = AgentRecord(self.id, self.name, self._facts.kind, self._facts.as_data(), self._lease)
        publish_agent(self._database, replace(record, doing=self._doing()))

    def run(self, say: Callable[[str], None]) -> None:
        """Publishes, and renews the lease until `stop` is set; then takes this machine off the list. A store that
        cannot be reached is tried again at every heartbeat: its machines do their work meanwhile."""
        self.publish()
        say(f"{self.name} is on the list of {self._database.name} (kind {self._facts.kind}).")
        reached = True
        try:
            while not self.stop.wait(self._lease / _BEATS):
                try:
                    self.beat()
                except (StoreError, OSError) as error:
                    if reached:
                        say(f"No heartbeat was possible, and it is tried again: {error}")
                    reached = False
                else:
                    if not reached:
                        say("Heartbeats are possible again.")
                    reached = True
        finally:
            # Its lease ends anyway.
            with suppress(StoreError):
                remove_agent(self._database, self.id)

    def beat(self) -> None:
        """One heartbeat. A row that somebody removed, or that was lost with a store that was restored, is published
        again."""
        self._facts = replace(self._facts, **changing_facts())
        if not renew_agent(self._database, self.id, self._doing(), self._facts.as_data()):
            self.publish()

    def _doing(self) -> tuple[str, ...]:
        return tuple(jobs_at_work())
