"""What every store must do for passes of recurring plans."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from zoolens.base.errors import ZoolensError
from zoolens.base.store import passes
from zoolens.base.store.passes import (
    Holder,
    begin_pass,
    forget_passes,
    keep_pass,
    load_passes,
    release_pass,
)
from zoolens.base.store.store import Store


def holder(name: str = "ann@host:1", **different: Any) -> Holder:
    """Somebody on another machine."""
    return replace(Holder(name, name, "another host", 1), **different)


class PassContract:
    def test_a_pass_is_resumed_until_it_is_finished(self, store: Store) -> None:
        ann = holder()
        first = begin_pass(store, "nightly", ann)
        release_pass(store, first.id, ann, {"cells": ["a"], "text": "half \ud800 and \0"})
        again = begin_pass(store, "nightly", ann)
        assert (again.id, again.content["cells"], again.ended) == (first.id, ["a"], None)
        assert load_passes(store, "nightly", ended=True) == []
        release_pass(store, first.id, ann, {"cells": ["a", "b"]}, ended=True)
        second = begin_pass(store, "nightly", ann)
        assert (second.id != first.id, second.content) == (True, {})
        keep_pass(store, second.id, ann, {"cells": ["c"]})
        newest, oldest = load_passes(store, "nightly")
        assert (newest.content["cells"], oldest.content) == (["c"], {"cells": ["a", "b"]})
        assert [one.id for one in load_passes(store, "nightly", limit=1, ended=False)] == [second.id]
        assert load_passes(store, "another") == []

    def test_who_comes_meanwhile_is_refused(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        ann, bob = holder(), holder("bob@host:2")
        record = begin_pass(store, "nightly", ann)
        with pytest.raises(ZoolensError, match=r"nightly is being carried out by ann@host:1, .* 0 s ago"):
            begin_pass(store, "nightly", bob)
        begin_pass(store, "weekly", bob)
        # A lease that ran out: bob goes on, and ann notices.
        monkeypatch.setattr(passes, "LEASE", -1.0)
        assert begin_pass(store, "nightly", bob).id == record.id
        with pytest.raises(ZoolensError, match="Another call took over this pass"):
            keep_pass(store, record.id, ann, {"cells": ["wrong"]})
        with pytest.raises(ZoolensError, match="Another call took over this pass"):
            release_pass(store, record.id, ann, {}, ended=True)
        assert load_passes(store, "nightly")[0].ended is None

    def test_a_process_of_this_machine_that_was_killed_holds_nothing(self, store: Store) -> None:
        here = Holder.this_process("me")
        assert here.process == os.getpid()
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        begin_pass(store, "nightly", replace(here, id="gone", process=gone.pid))
        begin_pass(store, "nightly", here)
        with pytest.raises(ZoolensError, match="is being carried out by me"):
            begin_pass(store, "nightly", replace(here, id="other"))

    def test_two_calls_at_once_make_one_pass(self, store: Store) -> None:
        def begin(number: int) -> str:
            try:
                return begin_pass(store, "nightly", holder(f"caller{number}")).id
            except ZoolensError:
                return ""

        with ThreadPoolExecutor(4) as threads:
            found = [one for one in threads.map(begin, range(4)) if one]
        assert len(found) == len(load_passes(store, "nightly")) == 1

    def test_old_passes_are_forgotten_but_for_the_last_of_each_plan(self, store: Store) -> None:
        ann = holder()
        for plan, count in (("nightly", 3), ("weekly", 1)):
            for _ in range(count):
                release_pass(store, begin_pass(store, plan, ann).id, ann, {}, ended=True)
        begin_pass(store, "nightly", ann)
        assert forget_passes(store, 3600.0) == 0
        kept = load_passes(store, "nightly")[:2]
        assert forget_passes(store, -1.0) == 2
        assert [one.id for one in load_passes(store, "nightly")] == [one.id for one in kept]
        assert len(load_passes(store, "weekly")) == 1
