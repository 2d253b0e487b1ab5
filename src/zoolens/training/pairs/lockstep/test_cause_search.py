"""The search for causes, with a door whose departures are what is left of a set of mistakes."""

from zoolens.base.numerics.deviation import Deviation
from zoolens.training.pairs.live.differences import SettingDifference
from zoolens.training.pairs.lockstep.cause_search import DepartureCause, causes_in_order, find_cause, next_cause
from zoolens.training.pairs.lockstep.quantities import ComparedQuantity


def quantity(place=0):
    return ComparedQuantity(1, "tensor", "w", (Deviation(1.0),), 1e-6, place)


def differences(names):
    return [SettingDifference(name, 1, 2) for name in names]


def cause(names, needed, refused=None):
    """What is found where these are needed together; with all that was tried."""
    tried = []

    def explains(chosen):
        tried.append("".join(chosen))
        return set(needed) <= set(chosen)

    return find_cause(quantity(), differences(names), explains, refused or {}), tried


def test_the_first_setting_that_explains_it_alone_is_the_cause():
    found, tried = cause("abc", "b")
    assert (found.names, found.proved) == (("b",), True)
    assert (found.departure, found.fixed) == (quantity(), {})
    assert tried == ["a", "b"]


def test_where_none_does_it_alone_the_fewest_that_do_it_together_are():
    found, tried = cause("abcd", "bd")
    assert (found.names, found.proved) == (("b", "d"), True)
    assert tried == ["a", "b", "c", "d", "abcd", "bcd", "cd", "bd"]


def test_of_two_none_is_tried_alone_twice():
    assert cause("ab", "ab")[1] == ["a", "b", "ab"]


def test_what_nothing_explains_names_all_that_could():
    found, tried = cause("ab", "x")
    assert (found.names, found.proved) == (("a", "b"), False)
    assert found.departure == quantity()
    assert tried == ["a", "b", "ab"]
    assert cause("", "x")[0].names == ()


def test_what_cannot_be_switched_is_left_out_and_told():
    found, tried = cause("abc", "ab", {"c": "it is fixed", "elsewhere": "no"})
    assert (found.names, found.fixed) == (("a", "b"), {"c": "it is fixed"})
    assert "abc" not in tried
    assert cause("abc", "x", {"c": "it is fixed"})[0].fixed == {"c": "it is fixed"}
    assert not cause("ab", "b", {"b": "no", "a": "no"})[1][2:]  # fewer than two are left to be tried together


class Door:
    """Mistakes in the order in which they show; those in capitals have no setting. Widening hides one of them."""

    def __init__(self, mistakes, hidden=""):
        self.left, self._hidden, self.widened, self.last = list(mistakes), hidden, 0, ""

    def departure(self):
        return quantity(len(self.left)) if self.left else None

    def cause_of(self, departure):
        assert departure == self.departure()
        name = self.left[0]
        return DepartureCause(departure, tuple(differences(name)), name.islower())

    def widen(self, departure):
        assert departure == self.departure()
        self.widened += 1
        if self.left[0] != self._hidden:
            return False
        del self.left[0]
        return True

    def take_over(self, cause):
        self.left.remove(cause.names[0])
        return cause.names[0] != self.last


def names(door, most=9):
    return "".join(found.names[0] for found in causes_in_order(door, most))


def test_causes_follow_each_other_until_one_is_unproved():
    assert names(Door("ab")) == "ab"
    assert names(Door("aBc")) == "aB"
    assert names(Door("")) == ""
    assert names(Door("abc"), most=2) == "ab"


def test_floors_are_widened_before_a_side_is_accused_of_what_nothing_explains():
    door = Door("aBc", hidden="B")
    assert names(door) == "ac"
    assert door.widened == 1
    assert next_cause(Door("B", hidden="B")) is None


def test_a_cause_that_cannot_be_taken_over_is_the_last():
    door = Door("abc")
    door.last = "b"
    assert names(door) == "ab"
