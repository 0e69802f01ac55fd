"""Numbers as text against Python's float() and repr(), and NumPy's for single precision."""
import decimal
from decimal import Decimal

import numpy as np
import pytest
from number_probe import Probe

SEED = 20240229
ROUND = 100_000


@pytest.fixture(autouse=True)
def exact_decimals():
    with decimal.localcontext(prec=1200):
        yield


@pytest.fixture(scope="module")
def probe():
    return Probe()


def patterns(generator, count):
    """Random bit patterns, subnormals, short decimals, integers, powers of two and their neighbours."""
    fifth = count // 5
    random = generator.integers(0, 2**64, count - 4 * fifth, dtype=np.uint64).view(np.float64)
    subnormal = (generator.integers(0, 2**64, fifth, dtype=np.uint64) & np.uint64(0x800FFFFFFFFFFFFF)).view(np.float64)
    decimals = generator.integers(-10**9, 10**9, fifth) / 10.0 ** generator.integers(0, 9, fifth)
    integers = (generator.integers(-2**63, 2**63 - 1, fifth) >> generator.integers(0, 60, fifth)).astype(np.float64)
    powers = np.ldexp(1.0, generator.integers(-1074, 1024, fifth))
    powers = (powers.view(np.int64) + generator.integers(-1, 2, fifth)).view(np.float64)
    every = np.concatenate([random, subnormal, decimals, integers, powers])
    return every[np.isfinite(every)]


def same_bits(a, b):
    return np.array_equal(a.view(np.uint64 if a.dtype == np.float64 else np.uint32),
                          b.view(np.uint64 if b.dtype == np.float64 else np.uint32))


def first_difference(texts, a, b):
    place = int(np.flatnonzero(a.view(np.uint64) != b.view(np.uint64))[0])
    return f"{texts[place]!r}: {a[place].hex()} instead of {b[place].hex()}"


def check_round(probe, generator, count):
    values = patterns(generator, count)
    texts = [repr(value) for value in values.tolist()]
    printed = probe.format(values)
    if printed != texts:
        place = next(i for i, (a, b) in enumerate(zip(printed, texts)) if a != b)
        raise AssertionError(f"{values[place].hex()}: {printed[place]} instead of {texts[place]}")
    back = probe.parse(texts)
    assert same_bits(back, values), first_difference(texts, back, values)
    for form in ("%.17g", "%.25g", "%.3g"):
        texts = [form % value for value in values.tolist()]
        expected = np.array([float(text) for text in texts])
        back = probe.parse(texts)
        assert same_bits(back, expected), first_difference(texts, back, expected)


def test_against_python(probe):
    check_round(probe, np.random.default_rng(SEED), ROUND)


@pytest.mark.full
@pytest.mark.parametrize("part", range(10))
def test_against_python_ten_million(probe, part):
    generator = np.random.default_rng(SEED + 1 + part)
    for _ in range(10):
        check_round(probe, generator, ROUND)


def test_halfway(probe):
    """All digits of the point between two neighbours, and one more digit that decides."""
    generator = np.random.default_rng(SEED)
    values = np.abs(patterns(generator, 2000))
    values = values[values < 1e300]
    texts = []
    for value, above in zip(values.tolist(), np.nextafter(values, np.inf).tolist()):
        exact = format((Decimal(value) + Decimal(above)) / 2, "f") if 1e-5 < value < 1e20 else None
        if exact is None:
            continue
        point = "" if "." in exact else "."
        texts += [exact, exact + point + "0" * 800, exact + point + "0" * 800 + "1", exact + point + "1"]
        texts.append(exact[:-1] + str(int(exact[-1]) - 1) + point + "9" * 30 if exact[-1] != "0" else exact)
    assert len(texts) > 1000
    expected = np.array([float(text) for text in texts])
    back = probe.parse(texts)
    assert same_bits(back, expected), first_difference(texts, back, expected)


def nearest_single(text):
    """By way of the double, unless that lies halfway between two singles: then the text decides."""
    wide = float(text)
    with np.errstate(over="ignore"):
        single = np.float32(wide)
    for other in (np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))):
        if np.isfinite(single) and np.isfinite(other) and abs(wide - float(single)) == abs(wide - float(other)):
            exact = Decimal(text)
            distance, distance_other = abs(exact - Decimal(float(single))), abs(exact - Decimal(float(other)))
            if distance_other < distance:
                return other
    return single


def test_single_precision(probe):
    generator = np.random.default_rng(SEED)
    values = generator.integers(0, 2**32, 40_000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    printed = probe.format(values)
    # NumPy has the digits; it goes over to an exponent earlier than Python does.
    assert printed == [repr(float(str(value))) for value in values]
    assert same_bits(probe.parse(printed, np.float32), values)
    texts = ["%.12g" % value for value in values.tolist()]
    # Close to the middle of two neighbours, where rounding twice goes wrong.
    with np.errstate(over="ignore", invalid="ignore"):
        middles = (values.astype(np.float64) + np.nextafter(values, np.float32(np.inf)).astype(np.float64)) / 2
    middles = middles[np.isfinite(middles)][:3000]
    for middle in middles.tolist():
        exact = Decimal(middle)
        texts += [f"{exact:.60e}", f"{exact * (1 + Decimal('1e-40')):.60e}", f"{exact * (1 - Decimal('1e-40')):.60e}"]
    expected = np.array([nearest_single(text) for text in texts], np.float32)
    back = probe.parse(texts, np.float32)
    wrong = np.flatnonzero(back.view(np.uint32) != expected.view(np.uint32))
    assert not len(wrong), f"{texts[wrong[0]]}: {back[wrong[0]]!r} instead of {expected[wrong[0]]!r}"
