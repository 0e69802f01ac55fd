"""Zones against Python's zoneinfo, and files made by hand: every version, and damaged ones."""
import ctypes
import datetime
import random
import struct
import zoneinfo

import numpy as np
import pytest
from weir_ctypes import Error, load

SEED = 5
UTC = datetime.timezone.utc


class Probe:
    def __init__(self):
        self.lib = load("weir_probe")
        self.lib.weir_probe_new.restype = ctypes.c_void_p
        self.mem = ctypes.c_void_p(self.lib.weir_probe_new(ctypes.c_int64(0), ctypes.byref(Error())))

    def offsets(self, name, seconds):
        instants, out, error = np.array(seconds, np.int64), np.zeros(len(seconds), np.int64), Error()
        code = self.lib.weir_probe_timezone(self.mem, name.encode(), instants.ctypes.data_as(ctypes.c_void_p),
                                            ctypes.c_size_t(len(seconds)), out.ctypes.data_as(ctypes.c_void_p),
                                            ctypes.byref(error))
        if code:
            raise ValueError(error.message.decode())
        return out.tolist()


@pytest.fixture(scope="module")
def probe():
    return Probe()


def expected_offsets(zone, seconds):
    epoch = datetime.datetime(1970, 1, 1, tzinfo=UTC)
    return [int((epoch + datetime.timedelta(seconds=second)).astimezone(zone).utcoffset().total_seconds()) for second in seconds]


def test_every_zone(probe):
    generator = random.Random(SEED)
    low, high = (int(datetime.datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1800, 2500))
    names = sorted(zoneinfo.available_timezones())
    assert len(names) > 400
    for name in names:
        seconds = [generator.randrange(low, high) for _ in range(60)]
        # Dense where the last transitions of files lie and their rules begin.
        seconds += [generator.randrange(2**31 - 86400 * 800, 2**31 + 86400 * 800) for _ in range(60)]
        assert probe.offsets(name, seconds) == expected_offsets(zoneinfo.ZoneInfo(name), seconds), name


def test_around_each_change(probe):
    for name in ("Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "America/Godthab", "Africa/Casablanca", "Asia/Tehran"):
        zone = zoneinfo.ZoneInfo(name)
        hours = range(int(datetime.datetime(2030, 1, 1, tzinfo=UTC).timestamp()),
                      int(datetime.datetime(2045, 1, 1, tzinfo=UTC).timestamp()), 1800)
        offsets = expected_offsets(zone, hours)
        changes = [second for second, a, b in zip(hours, offsets, offsets[1:]) if a != b]
        seconds = [second + delta for second in changes for delta in (0, 1, 1798, 1799, 1800, 1801)]
        assert probe.offsets(name, seconds or [0]) == expected_offsets(zone, seconds or [0]), name


def block(width, transitions, types, version):
    """One header and its data; types are (offset, is_dst)."""
    names = b"ABC\0"
    header = b"TZif" + version + bytes(15) + struct.pack(">6I", 0, 0, 0, len(transitions), len(types), len(names))
    code = ">q" if width == 8 else ">i"
    return (header + b"".join(struct.pack(code, at) for at, _ in transitions) + bytes(kind for _, kind in transitions)
            + b"".join(struct.pack(">iBB", offset, dst, 0) for offset, dst in types) + names)


def zone_file(version, transitions, types, rule=""):
    if version == b"\0":
        return block(4, transitions, types, version)
    return block(4, [], types[:1], version) + block(8, transitions, types, version) + b"\n" + rule.encode() + b"\n"


TYPES = [(600, 0), (3600, 0), (7200, 1)]
TRANSITIONS = [(-10**9, 1), (0, 2), (10**9, 1)]
RULES = ["", "CET-1", "CET-1CEST,M3.5.0,M10.5.0/3", "<-03>3<-02>,M3.5.0/-2,M10.5.0/-1", "EST5EDT,J60,J300",
         "AEST-10AEDT,M10.1.0,M4.1.0/3", "IST-1GMT0,M10.5.0,M3.5.0/1", "EET-2<+0330>-3:30:15,M4.4.4/50,M10.4.4/50"]


@pytest.mark.parametrize("version, rule", [(b"\0", "")] + [(version, rule) for version in (b"2", b"3", b"4") for rule in RULES])
def test_made_files(probe, tmp_path, monkeypatch, version, rule):
    data = zone_file(version, TRANSITIONS, TYPES, rule)
    (tmp_path / "Made").mkdir()
    (tmp_path / "Made/Zone").write_bytes(data)
    monkeypatch.setenv("TZDIR", str(tmp_path))
    generator = random.Random(SEED)
    seconds = [generator.randrange(-2 * 10**9, 2 * 10**9) for _ in range(300)] + [-10**9 - 1, -10**9, -1, 0, 10**9]
    seconds += [generator.randrange(10**9, 12 * 10**9) for _ in range(300)]
    with open(tmp_path / "Made/Zone", "rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file)
    expected = expected_offsets(zone, seconds)
    # Before the first change Python takes the first type that is not summer time; the standard, the first of all.
    expected = [TYPES[0][0] if second < TRANSITIONS[0][0] else offset for second, offset in zip(seconds, expected)]
    assert probe.offsets("Made/Zone", seconds) == expected


def test_rule_by_day_of_the_year(probe, tmp_path, monkeypatch):
    """Counted from 0, leap days too, as POSIX has it; Python's zoneinfo is a day early there."""
    (tmp_path / "Zone").write_bytes(zone_file(b"2", TRANSITIONS, TYPES, "EST5EDT,59/1:30,299"))
    monkeypatch.setenv("TZDIR", str(tmp_path))
    for begin, end in (((2025, 3, 1, 6, 30), (2025, 10, 27, 6)), ((2028, 2, 29, 6, 30), (2028, 10, 26, 6))):
        begin, end = (int(datetime.datetime(*at, tzinfo=UTC).timestamp()) for at in (begin, end))
        assert probe.offsets("Zone", [begin - 1, begin, end - 1, end]) == [-18000, -14400, -14400, -18000]


def test_package_folder(probe, tmp_path, monkeypatch):
    (tmp_path / "Only_Here").write_bytes(zone_file(b"2", TRANSITIONS, TYPES))
    with pytest.raises(ValueError, match="Only_Here.*not known.*TZDIR"):
        probe.offsets("Only_Here", [0])
    monkeypatch.setenv("WEIR_TZDATA", str(tmp_path))
    assert probe.offsets("Only_Here", [0]) == [7200]
    monkeypatch.delenv("WEIR_TZDATA")
    folder = tmp_path / "venv/lib/python3.99/site-packages/tzdata/zoneinfo"
    folder.mkdir(parents=True)
    (tmp_path / "Only_Here").rename(folder / "Only_Here")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    assert probe.offsets("Only_Here", [0]) == [7200]


def test_damaged_files(probe, tmp_path, monkeypatch):
    monkeypatch.setenv("TZDIR", str(tmp_path))
    whole = zone_file(b"2", TRANSITIONS, TYPES, RULES[2])
    for size in range(0, len(whole) - len(RULES[2]) - 2, 3):
        (tmp_path / "Cut").write_bytes(whole[:size])
        with pytest.raises(ValueError, match="damaged"):
            probe.offsets("Cut", [0])
    for bad in (zone_file(b"2", [(5, 1), (5, 2)], TYPES), zone_file(b"2", [(5, 9)], TYPES)):
        (tmp_path / "Bad").write_bytes(bad)
        with pytest.raises(ValueError, match="damaged"):
            probe.offsets("Bad", [0])
    generator = random.Random(SEED)
    for _ in range(400):  # whatever is in it, nothing is read outside of it
        spoilt = bytearray(whole)
        for _ in range(generator.randrange(1, 6)):
            spoilt[generator.randrange(len(spoilt))] = generator.randrange(256)
        (tmp_path / "Spoilt").write_bytes(spoilt)
        try:
            probe.offsets("Spoilt", [-2**62, 0, 2**40, 2**62])
        except ValueError:
            pass


@pytest.mark.parametrize("name", ["../etc/passwd", "/etc/passwd", "America", "No/Such", "", "+25:00", "+1", "+01:60", "+01:0"])
def test_no_zone(probe, name):
    with pytest.raises(ValueError):
        probe.offsets(name, [0])


def test_fixed(probe):
    for name, offset in (("+02:00", 7200), ("-0530", -19800), ("+02", 7200), ("+00:00", 0), ("-23:59", -86340)):
        assert probe.offsets(name, [0, 10**10]) == [offset, offset]
