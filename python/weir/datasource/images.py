"""Images as files: one for each row, made by Pillow in workers."""

from __future__ import annotations

from typing import Any

from weir.datasource.file_datasink import RowBasedFileDatasink


class ImageDatasink(RowBasedFileDatasink):
    """Writes arrays of pixels (height × width, or with 1, 3 or 4 channels) as image files. Made by Dataset.write_images.

    >>> import tempfile, numpy as np, weir
    >>> folder = tempfile.mkdtemp()
    >>> weir.from_numpy(np.zeros((2, 4, 4, 3), np.uint8)).write_datasink(ImageDatasink(folder, "data", "png"))
    >>> [row["image"].shape for row in weir.read_images(folder).take_all()]
    [(4, 4, 3), (4, 4, 3)]
    """

    def __init__(self, path: str, column: str, file_format: str, **file_datasink_kwargs: Any) -> None:
        super().__init__(path, file_format=file_format, **file_datasink_kwargs)
        self.column, self.kind = column, file_format

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        """Encodes one image."""
        import io

        from weir._images import pillow

        Image: Any = pillow("write_images", "encode")
        if self.column not in row:
            raise KeyError(f"write_images: there is no column {self.column!r} among {list(row)}")
        pixels = row[self.column]
        if getattr(pixels, "ndim", 0) == 3 and pixels.shape[2] == 1:
            pixels = pixels[:, :, 0]
        encoded = io.BytesIO()
        try:
            Image.fromarray(pixels).save(encoded, format="JPEG" if self.kind.lower() == "jpg" else self.kind)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            shape, dtype = getattr(pixels, "shape", None), getattr(pixels, "dtype", type(pixels).__name__)
            raise ValueError(f"column {self.column!r}: Pillow makes no {self.kind} image of {dtype} of shape {shape}: {error!r}") from None
        file.write(encoded.getvalue())
