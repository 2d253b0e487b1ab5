"""What every zoo must do. A test class derives from `ZooContract` and names the class of the zoo.

class TestMine(ZooContract):
    zoo_class = Mine

A zoo that asks a server (`remote`) is not listed, so that a test needs no network.
"""

from __future__ import annotations

from itertools import islice
from typing import ClassVar

import pytest

from zoolens.inventory.manifests.files import dump_manifest, parse_manifest
from zoolens.inventory.manifests.locations import presence
from zoolens.inventory.zoos.zoo import Entry, Weights, Zoo
from zoolens.testing.late_imports import frameworks_imported_by

LOOKED_AT = 50  # entries that are checked one by one


class ZooContract:
    zoo_class: ClassVar[type[Zoo]]

    @pytest.fixture(scope="class")
    def zoo(self) -> Zoo:
        return self.zoo_class()

    @pytest.fixture(scope="class")
    def listed(self, zoo: Zoo) -> list[Entry]:
        if zoo.remote:
            pytest.skip(f"{zoo.name} is searched on a server")
        missing = zoo.available()
        if missing is not None:
            assert missing.rstrip().endswith((".", "'", "`")), "what is missing is said in a sentence"
            pytest.skip(f"{zoo.name} CANNOT BE LISTED HERE: {missing}")
        return list(zoo.entries())

    def test_it_says_what_it_is(self, zoo: Zoo) -> None:
        assert zoo.name
        assert not set(zoo.name) & set(": @/"), "the name stands before a colon in references"
        assert zoo.summary
        assert "\n" not in zoo.summary

    def test_importing_it_imports_no_framework(self) -> None:
        assert frameworks_imported_by(self.zoo_class.__module__) == []

    def test_entries_have_this_zoo_and_a_name_of_their_own(self, zoo: Zoo, listed: list[Entry]) -> None:
        assert {entry.zoo for entry in listed} <= {zoo.name}
        references = [entry.full_ref for entry in listed]
        assert len(references) == len(set(references))

    def test_manifests_can_be_written_and_read(self, listed: list[Entry]) -> None:
        for entry in islice(listed, LOOKED_AT):
            assert parse_manifest(dump_manifest(entry.manifest)) == entry.manifest

    def test_weights_are_where_the_entry_says(self, listed: list[Entry]) -> None:
        """Weights are never invented: what is present has files here, and what is remote has an address."""
        for entry in islice(listed, LOOKED_AT):
            states = {presence(asset, entry.folder) for asset in entry.manifest.assets}
            if not entry.described:
                continue  # bare weights: no asset can name them before somebody says which network they belong to
            if entry.weights is Weights.PRESENT:
                assert "present" in states
            elif entry.weights is Weights.ABSENT:
                assert not states & {"present", "remote"}

    def test_a_second_listing_is_the_same(self, zoo: Zoo, listed: list[Entry]) -> None:
        assert [entry.full_ref for entry in self.zoo_class().entries()] == [entry.full_ref for entry in listed]
        assert isinstance(zoo.state(), str)
        assert all(isinstance(problem, str) for problem in zoo.problems())
