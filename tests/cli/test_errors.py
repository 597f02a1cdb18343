import json

import pytest

from headwater.cli import errors
from headwater.rules import errors as tree
from headwater.rules.errors import Corrupt, HeadwaterError


def every_error(base: type[HeadwaterError] = HeadwaterError) -> list[type[HeadwaterError]]:
    return [base, *(found for child in base.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("error", every_error(), ids=lambda error: error.__name__)
def test_the_exit_code_of_every_error_is_documented(error):
    assert error.exit_code in errors.EXIT_CODES


def test_a_person_reads_four_sentences(capsys):
    error = Corrupt(
        "object ab/cd differs from its hash", asked="Version 3 was verified.", kept="It is kept.", advice="redrive it"
    )

    errors.show(error, as_json=False, debug=False)

    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.rstrip() for line in shown.err.splitlines()] == [
        "   asked Version 3 was verified.",
        "happened Object ab/cd differs from its hash.",
        "    kept It is kept.",
        "    next Redrive it.",
    ]


def test_a_program_reads_json_with_the_facts(capsys):
    errors.show(Corrupt("differs", advice="look", key=b"\x01" * 32, at=3), as_json=True, debug=False)

    assert json.loads(capsys.readouterr().err) == {
        "error": "Corrupt",
        "asked": "",
        "happened": "differs",
        "kept": "",
        "next": "look",
        "facts": {"key": "01" * 32, "at": 3},
        "exit_code": 5,
    }


def test_settings_and_commands_keep_their_spelling(capsys):
    errors.show(tree.BadSettings("kafka.client is wrong", advice="`headwater up` helps"), as_json=False, debug=False)

    assert "happened kafka.client is wrong." in capsys.readouterr().err


def test_markup_in_an_error_is_text(capsys):
    errors.show(tree.NotFound("[bold]a[/bold] is missing"), as_json=False, debug=False)

    assert "[bold]a[/bold] is missing." in capsys.readouterr().err


def test_a_path_that_the_system_refuses_is_named():
    ours = errors.as_ours(FileExistsError(17, "File exists", b"out"))

    assert (str(ours).split(" What")[0], ours.exit_code) == ("out: File exists", 74)


def test_only_debug_shows_the_traceback(capsys):
    try:
        raise ZeroDivisionError("by zero")
    except ZeroDivisionError as error:
        errors.show(errors.as_ours(error), as_json=False, debug=False)
        assert "Traceback" not in capsys.readouterr().err
        errors.show(errors.as_ours(error), as_json=False, debug=True)
    shown = capsys.readouterr().err
    assert "ZeroDivisionError: by zero" in shown
    assert "Traceback" in shown
