"""An error reads as four sentences, and the tree says whether trying again can help."""

from __future__ import annotations

import inspect

from headwater.rules import errors


def test_an_error_reads_in_the_order_asked_happened_kept_advice() -> None:
    error = errors.Torn(
        "b.jpg changed while it was read.",
        asked="Upload of b.jpg.",
        kept="The older version is kept.",
        advice="Nothing to do: it will be sent again.",
    )
    assert str(error) == (
        "Upload of b.jpg. b.jpg changed while it was read. The older version is kept. "
        "Nothing to do: it will be sent again."
    )


def test_every_error_is_either_transient_or_permanent_and_drawn_in_the_tree() -> None:
    classes = [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, errors.HeadwaterError) and member is not errors.HeadwaterError
    ]
    for member in classes:
        assert issubclass(member, errors.Permanent) != issubclass(member, errors.Transient), member
        assert member.__name__ in (errors.__doc__ or ""), f"{member.__name__} is missing in the drawing"
