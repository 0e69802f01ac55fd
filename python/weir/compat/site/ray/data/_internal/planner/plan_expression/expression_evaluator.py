"""Where Ray keeps what reads texts of filters, and what expressions are over a block."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(__name__, "weir._expr_parse", "ExpressionEvaluator", only=True, eval_expr="weir._expr_python:of_block")
