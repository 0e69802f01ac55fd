"""Numbers and times as text through libweir_probe."""
import ctypes

import numpy as np
from weir_ctypes import load

FORMAT_BYTES_MAX = 41  # a number and its newline


class Probe:
    def __init__(self):
        self.lib = load("weir_probe")
        for name in ("format_doubles", "format_floats", "parse_doubles", "parse_floats", "format_time"):
            getattr(self.lib, f"weir_probe_{name}").restype = ctypes.c_size_t
        for name in ("parse_date", "parse_time", "parse_timestamp"):
            getattr(self.lib, f"weir_probe_{name}").restype = ctypes.c_bool

    def format(self, values):
        """A list of texts."""
        out = ctypes.create_string_buffer(len(values) * FORMAT_BYTES_MAX + 64)
        function = self.lib.weir_probe_format_doubles if values.dtype == np.float64 else self.lib.weir_probe_format_floats
        size = function(values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(values)), out)
        return out.raw[:size].decode().splitlines()

    def parse(self, texts, dtype=np.float64):
        blob = "".join(f"{text}\n" for text in texts).encode()
        out = np.empty(len(texts), dtype)
        function = self.lib.weir_probe_parse_doubles if dtype == np.float64 else self.lib.weir_probe_parse_floats
        count = function(blob, ctypes.c_size_t(len(blob)), out.ctypes.data_as(ctypes.c_void_p))
        assert count == len(texts), f"not a number: {texts[count]!r}"
        return out

    def date(self, text):
        out = ctypes.c_int32()
        data = text.encode()
        return out.value if self.lib.weir_probe_parse_date(data, ctypes.c_size_t(len(data)), ctypes.byref(out)) else None

    def time(self, text, digits):
        out = ctypes.c_int64()
        data = text.encode()
        is_time = self.lib.weir_probe_parse_time(data, ctypes.c_size_t(len(data)), digits, ctypes.byref(out))
        return out.value if is_time else None

    def timestamp(self, text, digits):
        """(units, digits of the fraction, has a zone), or None."""
        out, fraction, zone = ctypes.c_int64(), ctypes.c_uint8(), ctypes.c_bool()
        data = text.encode()
        is_timestamp = self.lib.weir_probe_parse_timestamp(data, ctypes.c_size_t(len(data)), digits, ctypes.byref(out),
                                                           ctypes.byref(fraction), ctypes.byref(zone))
        return (out.value, fraction.value, zone.value) if is_timestamp else None

    def format_time(self, kind, units, digits):
        out = ctypes.create_string_buffer(64)
        size = self.lib.weir_probe_format_time(ctypes.c_char(kind.encode()), ctypes.c_int64(units), digits, out)
        return out.raw[:size].decode()
