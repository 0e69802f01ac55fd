"""Texts of ``filter(expr="age > 30 and name in ['a', 'b']")``: Python's syntax, Ray Data's meaning. A text becomes the
``Expr`` that the same operators would have made."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from weir.expressions import BinaryExpr, CallExpr, ColumnExpr, Expr, LiteralExpr, Operation, UnaryExpr, lit

if TYPE_CHECKING:
    import pyarrow.compute

_COMPARISONS: dict[type[ast.cmpop], Operation] = {
    ast.Eq: Operation.EQ, ast.NotEq: Operation.NE, ast.Lt: Operation.LT, ast.LtE: Operation.LE, ast.Gt: Operation.GT,
    ast.GtE: Operation.GE, ast.In: Operation.IN, ast.NotIn: Operation.NOT_IN,
}
_OPERATORS: dict[type[ast.operator], Operation] = {
    ast.Add: Operation.ADD, ast.Sub: Operation.SUB, ast.Mult: Operation.MUL, ast.Div: Operation.DIV,
    ast.Mod: Operation.MOD, ast.FloorDiv: Operation.FLOORDIV, ast.BitAnd: Operation.AND, ast.BitOr: Operation.OR,
}


def parse_filter(text: str) -> Expr:
    """The expression that a text means; ValueError where it means none.

    >>> print(parse_filter("age > 30 and name in ['a', 'b']").describe())
    (col('age') > 30) & (col('name') in ['a', 'b'])
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"Invalid syntax in the expression: {text}{_hint(text)}") from error
    return _visit(tree.body, text)


def _hint(text: str) -> str:
    """What is meant by signs that other languages have.

    >>> _hint("a = 1"), _hint("a <> 1 AND b")
    (': values are compared by ==', ': values are compared by !=')
    """
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    for pattern, advice in (
        (r"<>", "values are compared by !="),
        (r"(?<![=!<>])=(?!=)", "values are compared by =="),
        (r"&&", "conditions are joined by `and`"),
        (r"\|\|", "conditions are joined by `or`"),
        (r"!(?!=)", "a condition is turned round by `not`"),
        (r"(?i)\bis\s+(not\s+)?null\b", "nulls are found by is_null(a) and is_not_null(a)"),
        (r"\b(AND|OR|NOT|IN)\b", "`and`, `or`, `not` and `in` are written small"),
    ):
        if re.search(pattern, bare):
            return f": {advice}"
    return ""


class ExpressionEvaluator:
    """The same under Ray Data's name.

    >>> ExpressionEvaluator.get_filters("a > 1")
    <pyarrow.compute.Expression (a > 1)>
    """

    @staticmethod
    def get_filters(expression: str) -> pyarrow.compute.Expression:
        """What a text means, for pyarrow."""
        return parse_filter(expression).to_pyarrow()

    @staticmethod
    def parse_native_expression(expression: str) -> Expr:
        """What it means, for filter(expr=…)."""
        return parse_filter(expression)


def _refuse(node: ast.AST, text: str, what: str) -> ValueError:
    return ValueError(f"{what} in the expression: {ast.get_source_segment(text.strip(), node) or text}")


def _visit(node: ast.expr, text: str) -> Expr:
    if isinstance(node, ast.Constant):
        return lit(node.value)
    if isinstance(node, ast.Name):
        return ColumnExpr(node.id)
    if isinstance(node, ast.Attribute):  # a name with points in it
        base = _visit(node.value, text)
        if isinstance(base, ColumnExpr):
            return ColumnExpr(f"{base.name}.{node.attr}")
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        items = [_visit(item, text) for item in node.elts]
        if not all(isinstance(item, LiteralExpr) for item in items):
            raise _refuse(node, text, "A list of anything but values")
        return lit([item.value for item in items if isinstance(item, LiteralExpr)])
    if isinstance(node, ast.BoolOp):
        op = Operation.AND if isinstance(node.op, ast.And) else Operation.OR
        joined, *rest = (_visit(value, text) for value in node.values)
        for part in rest:
            joined = BinaryExpr(op, joined, part)
        return joined
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return BinaryExpr(_OPERATORS[type(node.op)], _visit(node.left, text), _visit(node.right, text))
    if isinstance(node, ast.UnaryOp):
        operand = _visit(node.operand, text)
        if isinstance(node.op, (ast.Not, ast.Invert)):
            return UnaryExpr(Operation.NOT, operand)
        number = isinstance(operand, LiteralExpr) and isinstance(operand.value, (int, float))
        if isinstance(node.op, ast.USub):
            return lit(-operand.value) if number and isinstance(operand, LiteralExpr) else operand * lit(-1)
        return operand
    if isinstance(node, ast.Compare):
        return _compare(node, text)
    if isinstance(node, ast.Call):
        return _call(node, text)
    raise _refuse(node, text, f"Unsupported {type(node).__name__}")


def _compare(node: ast.Compare, text: str) -> Expr:
    left, joined = node.left, None
    for op, right in zip(node.ops, node.comparators, strict=True):
        is_none = isinstance(right, ast.Constant) and right.value is None
        if isinstance(op, (ast.Is, ast.IsNot)) and is_none:
            part: Expr = UnaryExpr(Operation.IS_NULL if isinstance(op, ast.Is) else Operation.IS_NOT_NULL,
                                   _visit(left, text))
        elif type(op) in _COMPARISONS:
            part = BinaryExpr(_COMPARISONS[type(op)], _visit(left, text), _visit(right, text))
        else:
            raise _refuse(node, text, f"Unsupported comparison {type(op).__name__}")
        joined = part if joined is None else joined & part
        left = right
    assert joined is not None
    return joined


def _call(node: ast.Call, text: str) -> Expr:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    counts = {"is_null": 1, "is_valid": 1, "is_not_null": 1, "is_nan": 1, "is_in": 2}
    if name not in counts:
        raise _refuse(node, text, "Unsupported function")
    if len(node.args) != counts[name] or node.keywords:
        raise _refuse(node, text, f"{name}() expects {counts[name]} argument{'s' if counts[name] > 1 else ''}")
    args = [_visit(arg, text) for arg in node.args]
    if name == "is_in":
        return BinaryExpr(Operation.IN, *args)
    if name == "is_nan":
        return CallExpr("is_nan", (args[0],), {})
    return UnaryExpr(Operation.IS_NULL if name == "is_null" else Operation.IS_NOT_NULL, args[0])
