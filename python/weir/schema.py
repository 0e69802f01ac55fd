"""Schema: names and types of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weir._weir import Batch


NO_COLUMN = "__bsp_stub"  # of rows without columns, which have to be counted by something; Ray Data's name for it


class Schema:
    """The columns of a Dataset. `types` are pyarrow's where pyarrow is installed, else the same as text.

    >>> import weir
    >>> schema = weir.range(3).schema()
    >>> schema.names
    ['id']
    >>> print(schema)
    Column  Type
    ------  ----
    id      int64
    """

    def __init__(self, base_schema: Any, *, data_context: Any = None) -> None:
        self._batch: Batch | None = None
        self._arrow: Any = None
        self._is_of_frames = False
        if hasattr(base_schema, "num_rows") and hasattr(base_schema, "__arrow_c_schema__"):
            self._batch = base_schema
        else:
            self._arrow = base_schema

    @property
    def names(self) -> list[str]:
        """The columns' names, in order.

        >>> import weir
        >>> weir.from_items([{"a": 1, "b": "x"}]).schema().names
        ['a', 'b']
        """
        names = self._batch.names if self._batch is not None else self._arrow.names
        return [name for name in names if name != NO_COLUMN]

    @property
    def types(self) -> list[Any]:
        """Their types, pyarrow's; the same as text where there is no pyarrow.

        >>> import weir
        >>> [str(kind) for kind in weir.from_items([{"a": 1, "b": "x"}]).schema().types]
        ['int64', 'string']
        """
        base = self.base_schema
        return [_arrow_type(t) for t in base.types] if base is not self and hasattr(base, "types") else self.type_texts

    @property
    def type_texts(self) -> list[str]:
        """The types as text, whether pyarrow is there or not.

        >>> import weir
        >>> weir.range_tensor(2, shape=(2, 3)).schema().type_texts
        ['ArrowTensorTypeV2(shape=(2, 3), dtype=int64)']
        """
        if self._batch is None:
            return [_arrow_text(t) for t in self._arrow.types]
        texts = [_text(t, extension) for name, (t, extension) in zip(self._batch.names, _fields(self._batch)) if name != NO_COLUMN]
        return ["string" if text == "large_string" else text for text in texts] if self._is_of_frames else texts

    @property
    def base_schema(self) -> Any:
        """The pyarrow.Schema; this object where there is no pyarrow.

        >>> import pyarrow, weir
        >>> weir.range(3).schema().base_schema.equals(pyarrow.schema([("id", pyarrow.int64())]))
        True
        """
        if self._arrow is None:
            assert self._batch is not None
            try:
                import pyarrow
            except ImportError:
                return self
            from weir import _tensors

            _tensors.make_known(self._batch)
            # Whether a column may hold nulls is the engine's knowledge of these rows, not a promise about others.
            fields = [field.with_nullable(True) for field in pyarrow.schema(self._batch) if field.name != NO_COLUMN]
            if self._is_of_frames:
                fields = [field.with_type(pyarrow.string()) if field.type == pyarrow.large_string() else field for field in fields]
            kinds = [_tensors.users_type(field) for field in fields]
            self._arrow = pyarrow.schema([f if kind is None else pyarrow.field(f.name, kind) for f, kind in zip(fields, kinds)])
        return self._arrow

    def of_frames(self) -> Schema:
        """What Ray Data tells of pandas frames: their texts are `string`, and become `large_string` in tables.

        >>> import weir
        >>> weir.from_items([{"a": "x"}]).schema().of_frames().names
        ['a']
        """
        made = Schema(self._batch if self._batch is not None else self._arrow)
        made._is_of_frames = True
        return made

    def as_text(self) -> Schema:
        """The same without what the rows lie in: names and the texts of types.

        >>> import weir
        >>> weir.range(3).schema().as_text().types
        ['int64']
        """
        return Schema.of_texts(self.names, self.type_texts)

    @staticmethod
    def of_texts(names: list[str], types: list[str]) -> Schema:
        """A schema of names and the texts of types, to be shown.

        >>> print(Schema.of_texts(["a"], ["int64"]))
        Column  Type
        ------  ----
        a       int64
        """
        return Schema(_Texts(names, types))

    def __arrow_c_schema__(self) -> object:
        source: Any = self._batch if self._batch is not None else self._arrow
        return source.__arrow_c_schema__()

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Any:
        return iter(zip(self.names, self.types))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self.names == other.names and self.type_texts == other.type_texts

    def __hash__(self) -> int:
        return hash(tuple(self.names))

    def __reduce__(self) -> tuple[Any, ...]:
        base = self.base_schema
        return (_rebuilt, (self.names, self.type_texts)) if base is self else (Schema, (base,))

    def __repr__(self) -> str:
        names, types = self.names, self.type_texts
        width = max([len(n) for n in names] + [len("Column")])
        lines = [f"{'Column':<{width}}  Type", f"{'------':<{width}}  ----"]
        lines += [f"{name:<{width}}  {text}" for name, text in zip(names, types)]
        return "\n".join(line.rstrip() for line in lines)


class _Texts:
    """What is left of a schema that travelled without its engine."""

    def __init__(self, names: list[str], types: list[str]) -> None:
        self.names = names
        self.types = types


def _rebuilt(names: list[str], types: list[str]) -> Schema:
    return Schema(_Texts(names, types))


def _fields(batch: Batch) -> list[tuple[str, tuple[str, str] | None]]:
    """Type and extension (name, metadata) of each column."""
    return [(type_text, _extension(metadata)) for _, type_text, _, metadata in batch.schema()]


def _extension(metadata: Any) -> tuple[str, str] | None:
    texts = {_decoded(key): _decoded(value) for key, value in dict(metadata or {}).items()}
    name = texts.get("ARROW:extension:name")
    return (name, texts.get("ARROW:extension:metadata", "")) if name else None


def _decoded(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _text(type_text: str, extension: tuple[str, str] | None) -> str:
    """A type as Ray's schema prints it, tensors in Ray's words."""
    if not extension:
        return type_text
    name, metadata = extension
    if name == "arrow.fixed_shape_tensor":
        import json

        return tensor_text(tuple(json.loads(metadata or "{}").get("shape", ())), _item_text(type_text))
    if name in ("ray.data.arrow_tensor", "ray.data.arrow_tensor_v2"):
        import json

        kind = "ArrowTensorTypeV2" if name.endswith("v2") else "ArrowTensorType"
        return f"{kind}(shape={tuple(json.loads(metadata))}, dtype={_item_text(type_text)})"
    if name == "ray.data.arrow_variable_shaped_tensor":
        return f"ArrowVariableShapedTensorType(ndim={metadata}, dtype={_item_text(type_text)})"
    if name == "arrow.variable_shape_tensor":
        ndim = type_text.rpartition("fixed_size_list<")[2].rpartition("[")[2].partition("]")[0]
        return f"ArrowVariableShapedTensorType(ndim={ndim}, dtype={_item_text(type_text)})"
    if name == "weir.python_object":
        return "extension<ray.data.arrow_pickled_object<ArrowPythonObjectType>>"
    return f"extension<{name}>"


def tensor_text(shape: tuple[int, ...], item: str) -> str:
    """The type of tensors of one shape, in the format that the context asks for.

    >>> tensor_text((2, 2), "float")
    'ArrowTensorTypeV2(shape=(2, 2), dtype=float)'
    """
    from weir.extensions.formats import FixedShapeTensorFormat, current

    chosen = current()
    if chosen is FixedShapeTensorFormat.ARROW_NATIVE:
        return f"extension<arrow.fixed_shape_tensor[value_type={item}, shape=[{','.join(map(str, shape))}]]>"
    return f"{'ArrowTensorType' if chosen is FixedShapeTensorFormat.V1 else 'ArrowTensorTypeV2'}(shape={shape}, dtype={item})"


def _item_text(text: str) -> str:
    """The number inside of a list's or a ragged tensor's type text."""
    inner = text.partition("item: ")[2] or text
    for stop in (">", "[", ",", " not null"):
        inner = inner.partition(stop)[0]
    return inner.strip()


def _arrow_text(arrow_type: Any) -> str:
    return str(_arrow_type(arrow_type))


def _arrow_type(kind: Any) -> Any:
    """The pyarrow type of what stands in a schema; a NumPy or pandas dtype where a user made the schema of a frame's."""
    module = type(kind).__module__
    if module.startswith("pyarrow") or isinstance(kind, str):
        return kind
    import pyarrow as pa

    if hasattr(kind, "pyarrow_dtype"):
        return kind.pyarrow_dtype
    try:
        if module.startswith("numpy"):
            return pa.from_numpy_dtype(kind)
        if module.startswith("pandas"):
            return pa.string() if kind.name in ("string", "str") else pa.from_numpy_dtype(kind.numpy_dtype)
    except (pa.ArrowException, AttributeError, NotImplementedError):
        return object
    return kind
