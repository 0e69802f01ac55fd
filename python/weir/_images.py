"""Decoding of images, in workers. Pillow does it, and is needed there only."""

from __future__ import annotations

from typing import Any

BAND_BYTES = 1 << 20  # of an image, taken out of Pillow's memory at once


class Decode:
    """bytes → image: an array of height × width × channels, or of height × width where there is one channel."""

    def __init__(self, size: tuple[int, int] | None, mode: str | None) -> None:
        self.size = size
        self.mode = mode

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        import io

        Image: Any = pillow("read_images", "decode")
        try:
            image = Image.open(io.BytesIO(row.pop("bytes")))
            image.load()
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(f"{row.get('path', 'a file')} is no image that Pillow can read: {error}") from None
        if self.size is not None:
            height, width = self.size
            image = image.resize((width, height), resample=Image.BILINEAR)
        if self.mode is not None:
            image = image.convert(self.mode)
        path = row.pop("path", None)
        return {"image": array_of(image), **row, **({"path": path} if path is not None else {})}


def array_of(image: Any) -> Any:
    """numpy.array(image). That has a large image in memory four times for a moment, so it is taken a band at a time."""
    import numpy as np

    first = np.array(image.crop((0, 0, image.width, min(1, image.height))))
    step = max(1, BAND_BYTES // max(1, first.nbytes))
    if step >= image.height:
        return np.array(image)
    made = np.empty((image.height, *first.shape[1:]), first.dtype)
    for top in range(0, image.height, step):
        bottom = min(top + step, image.height)
        made[top:bottom] = np.asarray(image.crop((0, top, image.width, bottom)))
    return made


def pillow(method: str, does: str) -> Any:
    """PIL.Image; an error that names the package where it is absent."""
    try:
        from PIL import Image
    except ImportError:
        raise ModuleNotFoundError(f"{method} needs Pillow to {does} images: pip install pillow") from None
    return Image


def check(size: Any, mode: Any) -> None:
    """What can be wrong before any file is read."""
    pillow("read_images", "decode")
    if size is not None:
        if not isinstance(size, (tuple, list)) or len(size) != 2:
            raise ValueError(f"Expected `size` to contain two integers for height and width, but got {size!r} instead.")
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in size):
            raise ValueError(f"Expected `size` to contain positive integers, but got {size!r} instead.")
    if mode is not None and not isinstance(mode, str):
        raise ValueError(f"mode is the name of a Pillow mode such as 'RGB', not {mode!r}")
