"""Numbers and names that Ray Data has in ray.data.constants.

>>> TENSOR_COLUMN_NAME
'__value__'
"""

MAX_REPR_LENGTH = 120
TENSOR_COLUMN_NAME = "__value__"
