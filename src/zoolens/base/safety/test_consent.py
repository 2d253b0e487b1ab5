import pytest

from zoolens.base.safety.consent import NotGranted, asking, require


def test_where_nobody_can_be_asked_nothing_is_granted():
    with pytest.raises(NotGranted, match="asks for this") as caught:
        require("The manifest asks for this.")
    assert "--yes" in str(caught.value)


def test_the_user_is_shown_what_is_asked_for_and_decides():
    shown = []
    with asking(lambda wish: bool(shown.append(wish)) or True):
        require("One.")
        with asking(lambda wish: False), pytest.raises(NotGranted):
            require("Two.")
        require("Three.")
    assert shown == ["One.", "Three."]
    with pytest.raises(NotGranted):
        require("Four.")
