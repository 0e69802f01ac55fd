"""TorchVisionPreprocessor: transforms of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from weir.data_batch_conversion import BatchFormat
from weir.preprocessors._columns import ColumnPreprocessor, Field, Given
from weir.preprocessors.version_support import SerializablePreprocessor

__all__ = ["TorchVisionPreprocessor"]


@SerializablePreprocessor(version=1, identifier="io.ray.preprocessors.torchvision_preprocessor")
class TorchVisionPreprocessor(ColumnPreprocessor):
    """A transform of torchvision, or any function of a tensor, for columns of images. Needs torch.

    Args:
        columns: the columns of images.
        transform: gets a torch tensor (or, if it raises a TypeError, a NumPy array) and gives a tensor or an array.
        output_columns: their names afterwards; None: the same.
        batched: it gets all images of a batch in one tensor.

    >>> import numpy as np, weir
    >>> ds = weir.from_items([{"image": np.full((2, 2), 255, np.uint8)}])
    >>> scaled = TorchVisionPreprocessor(["image"], transform=lambda image: image / 255).transform(ds)
    >>> scaled.take()[0]["image"].tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    columns = Field[list[str]]()
    torchvision_transform = Field[Callable[[Any], Any]]()
    output_columns = Field[list[str]]()
    batched = Field[bool]()
    _saved_fields: ClassVar[tuple[str, ...]] = ("columns", "output_columns", "torchvision_transform", "batched")
    _format: ClassVar[BatchFormat] = BatchFormat.NUMPY
    _is_fittable = False

    def __init__(
        self, columns: list[str], transform: Callable[[Any], Any], output_columns: list[str] | None = None, batched: bool = False
    ) -> None:
        super().__init__()
        self._columns = columns
        self._output_columns = self._derive_and_validate_output_columns(columns, output_columns)
        self._torchvision_transform = transform
        self._batched = batched

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(columns={self._columns}, output_columns={self._output_columns}, "
            f"transform={self._torchvision_transform!r})"
        )

    def _transform_batch(self, data: Any) -> Any:
        from weir.preprocessors import _batches

        if _batches.kind_of(data) == "array" and not self._has_own_transform():
            return self._apply(data)  # an array without a name stays one
        return super()._transform_batch(data)

    def _changed(self, given: Given) -> dict[str, Any]:
        return {output: self._apply(given.array(name)) for name, output in zip(self._columns, self._output_columns, strict=True)}

    def _apply(self, images: Any) -> Any:
        import numpy as np

        if self._batched:
            return self._one(images)
        made = [self._one(image) for image in images]
        return np.stack(made) if made and len({image.shape for image in made}) == 1 else made

    def _one(self, image: Any) -> Any:
        import numpy as np
        from weir._formats import _need

        torch = _need("torch", "a TorchVisionPreprocessor")
        try:
            # Transforms may write to what they are given: it is a copy.
            made = self._torchvision_transform(torch.from_numpy(np.array(image)))
        except TypeError:
            made = self._torchvision_transform(image)
        if isinstance(made, torch.Tensor):
            made = made.numpy()
        if not isinstance(made, np.ndarray):
            raise ValueError(
                f"the transform of a TorchVisionPreprocessor has to give a torch.Tensor or a NumPy array, not {type(made).__name__}"
            )
        return made
