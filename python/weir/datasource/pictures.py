"""The folders of pictures behind example://image-datasets/…: weir's own drawings, under the names, sizes and modes of those that came with
Ray's package, which scripts show read_images with.

    simple            image1.jpg image2.jpg image3.jpg     32 × 32, RGB
    different-sizes   16x16.png 32x32.png 64x64.png        RGB
    different-modes   L.jpg cmyk.jpg rgb.jpg               32 × 32

They are drawn by Pillow, which reading them needs, too, when a script first names one.
"""

from __future__ import annotations

import os
from typing import Any

_FOLDERS: dict[str, dict[str, tuple[str, int]]] = {  # folder: {file: (mode, pixels on a side)}
    "image-datasets/simple": {f"image{number}.jpg": ("RGB", 32) for number in (1, 2, 3)},
    "image-datasets/different-sizes": {f"{side}x{side}.png": ("RGB", side) for side in (16, 32, 64)},
    "image-datasets/different-modes": {"L.jpg": ("L", 32), "cmyk.jpg": ("CMYK", 32), "rgb.jpg": ("RGB", 32)},
}
NAMES = tuple(_FOLDERS)


def drawn(mode: str, side: int, number: int) -> Any:
    """A picture of Pillow: slopes of light, each channel's its own way, with a dark disc whose place is the number's.

    >>> picture = drawn("RGB", 32, 0)
    >>> picture.size, picture.mode
    ((32, 32), 'RGB')
    """
    from weir._images import pillow

    Image = pillow("example://image-datasets", "draw")
    values = bytearray()
    middle = side * (number + 1) // 4
    for y in range(side):
        for x in range(side):
            inside = (x - middle) ** 2 + (y - side // 2) ** 2 <= (side // 5) ** 2
            slopes = (x, y, side - 1 - x, side - 1 - y)
            values += bytes(40 if inside else 55 + 200 * slope // side for slope in slopes[: len(mode)])
    return Image.frombytes(mode, (side, side), bytes(values))


def draw_folder(name: str, path: str) -> None:
    """All files of one of the folders, in `path`, which is there."""
    for number, (file, (mode, side)) in enumerate(_FOLDERS[name].items()):
        drawn(mode, side, number).save(os.path.join(path, file))


def folder_of(name: str) -> str | None:
    """The folder that a name means, or is in.

    >>> folder_of("image-datasets/simple/image1.jpg"), folder_of("image-datasets/simple/"), folder_of("image-datasets/simple/other.jpg")
    ('image-datasets/simple', 'image-datasets/simple', None)
    """
    text = name.strip("/")
    if text in _FOLDERS:
        return text
    folder, _, file = text.rpartition("/")
    return folder if file in _FOLDERS.get(folder, ()) else None
