#!/usr/bin/env python3
"""Writes src/base/number_powers.c: the 128 leading bits of the powers of ten that reading and printing doubles need."""
from pathlib import Path

FIRST, LAST = -342, 324
TARGET = Path(__file__).resolve().parent.parent / "src/base/number_powers.c"


def leading_bits(exponent):
    """floor(5^exponent · 2^s), s such that it has 128 bits."""
    if exponent >= 0:
        power = 5 ** exponent
        shift = power.bit_length() - 128
        return power >> shift if shift > 0 else power << -shift
    power = 5 ** -exponent
    quotient = (1 << (power.bit_length() + 128)) // power
    return quotient >> (quotient.bit_length() - 128)


def main():
    words = [f"{{{bits >> 64:#018x}, {bits & (1 << 64) - 1:#018x}}}," for bits in map(leading_bits, range(FIRST, LAST + 1))]
    lines = ["\t" + " ".join(words[i:i + 2]) for i in range(0, len(words), 2)]
    exact = ", ".join(f"1e{i}" for i in range(12)), ", ".join(f"1e{i}" for i in range(12, 23))
    TARGET.write_text(
        "/* Made by tools/number_powers.py. */\n"
        '#include "base/number_impl.h"\n\n'
        f"const double weir_pow10_exact[23] = {{\n\t{exact[0]},\n\t{exact[1]}}};\n\n"
        "/* clang-format off */\n"
        "const struct weir_pow10 weir_pow10_table[WEIR_POW10_LAST - WEIR_POW10_FIRST + 1] = {\n"
        + "\n".join(lines) + "\n};\n/* clang-format on */\n")


if __name__ == "__main__":
    main()
