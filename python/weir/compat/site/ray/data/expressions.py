"""ray.data.expressions: weir's, under Ray's name."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__,
    "weir.expressions weir.datatype",
    "_ArrayNamespace _DatetimeNamespace _ListNamespace _MapNamespace _StringNamespace _StructNamespace "
    "AliasExpr BinaryExpr col ColumnExpr DataType download DownloadExpr expand_star_exprs Expr exprlist_to_fields lit LiteralExpr "
    "monotonically_increasing_id MonotonicallyIncreasingIdExpr Operation pyarrow_udf PyArrowComputeUDFExpr random RandomExpr star "
    "StarExpr udf UDFExpr UnaryExpr unnest UnnestExpr uuid UUIDExpr when",
)
