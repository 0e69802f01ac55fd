"""Dates, times and timestamps as text against pyarrow.csv, whose rules they follow."""
import datetime
import io
import random

import pyarrow as pa
import pytest
from number_probe import Probe
from pyarrow import csv

SEED = 77
UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


@pytest.fixture(scope="module")
def probe():
    return Probe()


def random_text(generator):
    """A timestamp, more often than not spoilt a little."""
    year = generator.choice([0, 1, 1600, 1677, 1900, 1969, 1970, 2000, 2023, 2024, 2262, 9999, generator.randrange(10000)])
    text = f"{year:04}-{generator.randrange(14):02}-{generator.randrange(33):02}"
    if generator.random() < 0.8:
        text += generator.choice(" T T t")
        text += f"{generator.randrange(25):02}"
        if generator.random() < 0.9:
            text += f":{generator.randrange(61):02}"
            if generator.random() < 0.9:
                text += f":{generator.randrange(61):02}"
                if generator.random() < 0.5:
                    text += "." + "".join(generator.choice("0123456789") for _ in range(generator.randrange(11)))
    if generator.random() < 0.3:
        text += generator.choice(["Z", "z", "+01", "-0130", "+05:30", "+24:00", "-23:59", "+1", "+01:", "+0160", "-00:00"])
    if generator.random() < 0.15:
        place = generator.randrange(len(text))
        text = text[:place] + generator.choice(["", "0", "x", ":", "-", " ", "9"]) + text[place + 1:]
    return text


def without_quirks(texts):
    """pyarrow.csv trims blanks, which is the reader's affair, and takes a fraction without digits."""
    texts = (text.strip(" ") for text in texts)
    return [text for text in texts if text and not text.rstrip("Z").endswith(".")]


def pyarrow_values(texts, type):
    """Each as that type, or None: read one by one where the whole column fails."""
    options = csv.ConvertOptions(column_types={"a": type}, strings_can_be_null=False, null_values=[])
    parse = csv.ParseOptions(delimiter="|")
    out = []
    for text in texts:
        try:
            table = csv.read_csv(io.BytesIO(f"a\n{text}\n".encode()), convert_options=options, parse_options=parse)
            column = table.column(0).cast(pa.int32() if pa.types.is_date32(type) or pa.types.is_time32(type) else pa.int64())
            out.append(column[0].as_py())
        except pa.ArrowInvalid:
            out.append(None)
    return out


def test_timestamps(probe):
    generator = random.Random(SEED)
    texts = without_quirks(random_text(generator) for _ in range(3000))
    kept = 0
    for digits, unit in UNITS.items():
        for zone in (None, "UTC"):
            for text, expected in zip(texts, pyarrow_values(texts, pa.timestamp(unit, zone))):
                found = probe.timestamp(text, digits)
                if found is not None:
                    units, fraction, has_zone = found
                    found = units if fraction <= digits and has_zone == (zone is not None) else None
                if found is not None and found < -2**63 + 10**9:
                    continue  # pyarrow refuses the first second of what nanoseconds can hold
                assert found == expected, (text, unit, zone)
                kept += found is not None
    assert kept > 1000


def test_dates(probe):
    generator = random.Random(SEED)
    texts = without_quirks(random_text(generator)[:generator.choice([10, 10, 10, 9, 11])] for _ in range(3000))
    expected = pyarrow_values(texts, pa.date32())
    assert [probe.date(text) for text in texts] == expected
    assert sum(value is not None for value in expected) > 500


def test_times(probe):
    generator = random.Random(SEED)
    texts = without_quirks(random_text(generator)[11:] for _ in range(4000))
    for digits, type in ((0, pa.time32("s")), (3, pa.time32("ms")), (6, pa.time64("us")), (9, pa.time64("ns"))):
        kept = 0
        for text, expected in zip(texts, pyarrow_values(texts, type)):
            found = probe.time(text, digits)
            written = len(text.partition(".")[2])
            assert (found if written <= digits else None) == expected, (text, type)
            kept += found is not None
        assert kept > 100


def test_prints_as_python(probe):
    generator = random.Random(SEED)
    epoch = datetime.datetime(1970, 1, 1)
    for _ in range(3000):
        moment = datetime.datetime(1, 1, 1) + datetime.timedelta(
            days=generator.randrange(3652058), seconds=generator.randrange(86400), microseconds=generator.randrange(10**6))
        micros = (moment - epoch) // datetime.timedelta(microseconds=1)
        assert probe.format_time("s", micros, 6) == moment.isoformat(" ", "microseconds")
        assert probe.format_time("s", micros // 1000, 3) == moment.isoformat(" ", "milliseconds")
        assert probe.format_time("s", micros // 10**6, 0) == moment.isoformat(" ", "seconds")
        assert probe.format_time("d", (moment - epoch).days, 0) == moment.date().isoformat()
        clock = moment.time()
        assert probe.format_time("t", micros % (86400 * 10**6), 6) == clock.isoformat("microseconds")
