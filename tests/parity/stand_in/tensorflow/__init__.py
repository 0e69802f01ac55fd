"""What Ray's TFRecord reader and writer use of TensorFlow: tf.train.Example and its parts, made with Protocol Buffers. For record.py where
TensorFlow is not installed."""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="tensorflow", syntax="proto3")
for _name, _kind in (("BytesList", 12), ("FloatList", 2), ("Int64List", 3)):
    _file.message_type.add(name=_name).field.add(name="value", number=1, label=3, type=_kind)
_feature = _file.message_type.add(name="Feature")
_feature.oneof_decl.add(name="kind")
for _number, (_name, _kind) in enumerate((("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List")), 1):
    _feature.field.add(name=_name, number=_number, label=1, type=11, type_name=f".tensorflow.{_kind}", oneof_index=0)
_features = _file.message_type.add(name="Features")
_entry = _features.nested_type.add(name="FeatureEntry")
_entry.options.map_entry = True
_entry.field.add(name="key", number=1, label=1, type=9)
_entry.field.add(name="value", number=2, label=1, type=11, type_name=".tensorflow.Feature")
_features.field.add(name="feature", number=1, label=3, type=11, type_name=".tensorflow.Features.FeatureEntry")
_file.message_type.add(name="Example").field.add(name="features", number=1, label=1, type=11, type_name=".tensorflow.Features")
_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file)


class train:
    """tf.train"""


for _name in ("BytesList", "FloatList", "Int64List", "Feature", "Features", "Example"):
    setattr(train, _name, message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"tensorflow.{_name}")))
