import pytest
import typer

from headwater.cli.cast import quantities
from headwater.cli.cast.quantities import Part


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100GB", 100 * 10**9),
        ("1TB", 10**12),
        ("16MiB", 16 * 2**20),
        ("64 KiB", 65_536),
        ("1.5kB", 1_500),
        ("0B", 0),
        ("7B", 7),
    ],
)
def test_sizes(text, size):
    assert quantities.size(text) == size


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("25Gbps", 3.125e9),
        ("25Gbit/s", 3.125e9),
        ("1Gb/s", 1.25e8),
        ("3GB/s", 3e9),
        ("500MB/s", 5e8),
        ("1MiB/s", 2**20),
        ("800bps", 100),
    ],
)
def test_rates_in_bits_and_in_bytes(text, rate):
    assert quantities.rate(text) == rate


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("1s", 1), ("5min", 300), ("24h", 86_400), ("7d", 604_800), ("0s", 0)]
)
def test_spans(text, seconds):
    assert quantities.span(text) == seconds


@pytest.mark.parametrize(
    ("text", "part"), [("20@50%", Part(20, 0.5)), ("0@0%", Part(0, 0)), ("3@12.5%", Part(3, 0.125))]
)
def test_parts(text, part):
    assert quantities.part(text) == part


@pytest.mark.parametrize(
    ("read", "texts"),
    [
        (quantities.size, ["", "100", "100Gb", "GB", "-1GB", "1e9B", "1 0GB", "٣GB", "10GB/s"]),
        (quantities.rate, ["", "25", "25Gb", "0Gbps", "25GB", "-1Gbps", "25Gibps", "infGbps"]),
        (quantities.span, ["", "5", "1m", "s", "-1s", "1 week"]),
        (quantities.part, ["", "20", "20@50", "@50%", "20@101%", "-1@5%", "2.5@5%"]),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(read, texts):
    for text in texts:
        with pytest.raises(typer.BadParameter, match="Write it as"):
            read(text)
