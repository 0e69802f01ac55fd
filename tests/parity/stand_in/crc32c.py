"""The package crc32c, slowly."""
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "python"))

from tfrecord_files import crc32c as crc32  # noqa: E402,F401
