from collections import deque
from dataclasses import replace

import pytest
from rich.console import Console

from headwater.cli import progress
from headwater.connectors.catalog.deferred import COUNTED, PutOff
from headwater.connectors.catalog.progress import Amount, DatasetProgress, Progress, SourceProgress

PHOTOS = SourceProgress(
    "photos", "lab", "main", "host/1", silent_seconds=1.0, found=Amount(400, 4_000_000), claimed=Amount(300, 3_000_000),
    stored=Amount(250, 2_500_000), verified=Amount(200, 2_000_000), weak=0, condemned=0, exceptions=0,
    exceptions_by={}, example="", halted="", put_off=None,
)  # fmt: skip
MAIN = DatasetProgress("main", 0, None, None, 0, 0, 400)


def shown(*measured: tuple[float, Progress], width: int = 80) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        console.print(progress._shown(deque(measured)))
        return " ".join(console.export_text().split())


def test_each_stage_shows_what_reached_it_and_what_is_on_the_way():
    text = shown((0.0, Progress((PHOTOS,), (MAIN,))))

    assert "photos found 400 3.8 MiB agent runs" in text
    assert "sent 250 2.4 MiB 50 on the way, 488.3 KiB" in text
    assert "verified 200 1.9 MiB 50 on the way, 488.3 KiB" in text
    assert "main none 0 0 B 400" in text


def test_rates_are_over_the_last_measurements():
    later = replace(PHOTOS, stored=Amount(350, 2_500_000 + 10 * 1024 * 1024))

    text = shown((0.0, Progress((PHOTOS,), ())), (5.0, Progress((later,), ())))

    assert "2.0 MiB/s" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"silent_seconds": None}, "agent stopped"),
        ({"silent_seconds": 200.0}, "agent silent for 3 min 20 s"),
        (
            {
                "exceptions": 3,
                "exceptions_by": {"busy": 2, "unreadable": 1},
                "example": "a.mov: busy: it keeps changing",
            },
            "not carried now: 2 busy, 1 unreadable; for example a.mov: busy: it keeps changing",
        ),
        ({"halted": "9,000 paths are gone"}, "deletes halted: 9,000 paths are gone"),
        (
            {"put_off": PutOff(12, 3 * 3600.0, "its root /p cannot be opened here.")},
            "12 contents wait for its root, for 3 h 0 min: its root /p cannot be opened here",
        ),
        ({"put_off": PutOff(1, 5.0, "it is away.")}, "1 content waits for its root, for 5.0 s: it is away"),
        ({"put_off": PutOff(COUNTED, 5.0, "it is away.")}, "1,000 or more contents wait for its root"),
        ({"weak": 2}, "2 files weakly guaranteed"),
        ({"condemned": 1}, "1 contents condemned"),
    ],
)
def test_trouble_is_named(change, said):
    assert said in shown((0.0, Progress((replace(PHOTOS, **change),), ())), width=200)


def test_an_empty_catalog_says_how_to_begin():
    assert "headwater sync" in shown((0.0, Progress((), ())))
