from zoolens.base.present.labels import LONGEST, fitting_labels


def test_names_stand_right_of_their_points_or_left_where_the_picture_ends():
    labels = fitting_labels([(10, 50, "first"), (395, 90, "second")], 400, 9)
    assert [(label.place, label.text, label.align) for label in labels] == [
        (0, "first", "left"),
        (1, "second", "right"),
    ]


def test_a_name_without_room_is_left_out_and_the_next_may_have_it():
    points = [(200, 50, "right of it"), (200, 50, "left of it"), (200, 50, "no room"), (200, 150, "apart")]
    assert [label.text for label in fitting_labels(points, 400, 9)] == ["right of it", "left of it", "apart"]
    assert [label.text for label in fitting_labels(points, 400, 1)] == ["right of it"]


def test_points_without_names_are_not_covered():
    assert [label.align for label in fitting_labels([(200, 50, "name")], 400, 9, [(215, 40)])] == ["right"]
    assert fitting_labels([(200, 50, "name")], 400, 9, [(215, 40), (185, 40)]) == []


def test_long_names_are_cut_and_names_above_the_picture_are_left_out():
    (label,) = fitting_labels([(5, 60, "n" * 500)], 1000, 9)
    assert len(label.text) == LONGEST
    assert fitting_labels([(5, 2, "cut off")], 1000, 9) == []
