from headwater.cli.cast.curve import drawn


def test_a_straight_line_rises_evenly():
    lines = drawn([1, 2, 3, 4], [0.25, 0.5, 0.75, 1.0], end=4, width=4, height=2)

    assert lines == [
        " 100 % │  ▄█",
        "   0 % │▄███",
        "       └────",
        "        04.0 s",
    ]


def test_a_column_shows_what_was_reached_by_its_end():
    low, _, _ = drawn([5], [1.0], end=10, width=10, height=1)

    assert low.endswith("│    ██████")


def test_nothing_is_drawn_before_the_first_time():
    assert drawn([0.5], [1.0], end=1, width=4, height=1)[0].endswith("│ ███")
