"""The methods of a Dataset that make another one. Nothing runs here but what finds mistakes at once."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from weir import _outdated, _plan
from weir._mistakes import ROWS_MAX, WrongArgument, WrongCount, WrongInTask, WrongObject, check_amounts, no_dataset, no_expression
from weir._plan import Call, Filter, Limit, Op, Repartition, RepartitionRows, Sample, Step, quoted
from weir.compute import ActorPoolStrategy, TaskPoolStrategy, choose, is_callable_class
from weir.schema import NO_COLUMN

if TYPE_CHECKING:
    from weir._arrange import RandomSeedConfig
    from weir.context import DataContext
    from weir.dataset import Dataset
    from weir.expressions import Expr, UnnestExpr
    from weir.schema import Schema

UserFunction = Callable[..., Any]


def refuse(method: str, argument: str, why: str) -> None:
    """Raises for an argument that weir does not support. The error has its name, or `name={'key': …}` if it is a part
    of one.
    """
    raise WrongArgument(f"{method}({argument if '=' in argument else f'{argument}=…'}) is not supported: {why}")


# Of a cluster's scheduler and its retries: on one machine there is nothing to choose, weir retries by its own rules, and gives back what
# a worker holds without ending it.
_WITHOUT_MEANING = frozenset(
    {
        "scheduling_strategy", "max_retries", "max_restarts", "max_task_retries", "retry_exceptions", "name", "num_returns",
        "accelerator_type", "max_calls", "_generator_backpressure_num_objects",
    }
)


def remote_args(
    method: str, arguments: Mapping[str, Any], extra: Mapping[str, Any] | None = None, warns: bool = False
) -> dict[str, Any]:
    """Takes num_cpus, num_gpus, memory, resources and runtime_env out of the arguments that Ray allows; unknown ones
    are refused by name. `warns`: `extra` is a **ray_remote_args, which is outdated.
    """
    merged = {name: value for name, value in arguments.items() if value is not None}
    is_outdated = bool(extra) and warns
    if extra is not None and not isinstance(extra, Mapping):
        raise WrongObject(f"{method}: ray_remote_args is a dict, not {extra!r}")
    asked = merged.pop("ray_remote_args_fn", None)
    if asked is not None:
        _warn_outdated("`ray_remote_args_fn` is deprecated: weir asks it once, when the operator is made")
        extra = {**(extra or {}), **_asked(method, asked)}
    for name, value in (extra or {}).items():
        if name in merged and value is not None:
            raise ValueError(f"{method}: {name} is given twice, by itself and in ray_remote_args")
        if value is not None:
            merged[name] = value
    out: dict[str, Any] = {}
    for name, value in merged.items():
        if name == "resources":
            out.update(_custom(method, value))
        elif name == "scheduling_strategy" and not isinstance(value, str):
            from weir import _call

            out["group"] = _call.group_of(value)
        elif name in ("num_cpus", "num_gpus", "memory", "runtime_env"):
            out[name] = value
        elif name == "max_concurrency":
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise WrongArgument(f"{method}: max_concurrency is how many calls a worker has going at once, 1 or more, not {value!r}")
            out[name] = value
        elif name in ("label_selector", "fallback_strategy"):
            from weir.core import labels

            check = labels.check_selector if name == "label_selector" else labels.check_fallbacks
            check(value, f"{method}: ")
        elif name not in _WITHOUT_MEANING:
            from weir._errors import nearest

            known = (*_RESOURCE_NAMES, "batch_size", "batch_format", "zero_copy_batch", "compute", "concurrency", "fn_args", "fn_kwargs",
                     "fn_constructor_args", "fn_constructor_kwargs", "ray_remote_args")
            raise WrongArgument(f"{method}() got an unexpected keyword argument {name!r}{nearest(name, known)}")
    check_amounts(out, f"{method}: ")
    if is_outdated:
        _warn_outdated("`ray_remote_args` is deprecated: num_cpus, num_gpus, memory and the others are arguments of their own")
    return out


def _tell_of_concurrency(given: Any) -> None:
    if given is not None:
        _outdated.log("The argument ``concurrency`` is deprecated in Ray Data since 2.51: ``compute`` has the same numbers, TaskPoolStrategy(n) or "
                      "ActorPoolStrategy(…)", "ray.data._internal.util")


def _warn_outdated(text: str) -> None:
    """Warns with a RayDeprecationWarning, at the line of the program that made the call."""
    from weir.util import RayDeprecationWarning

    _outdated.at_caller(text, RayDeprecationWarning)


_SHUFFLED_SEED = 0  # of repartition(shuffle=True)


def _asked(method: str, fn: Any) -> dict[str, Any]:
    """What a ray_remote_args_fn returns."""
    made = fn()
    if not isinstance(made, Mapping):
        raise TypeError(f"{method}: ray_remote_args_fn returns a dict of arguments, not {type(made).__name__}")
    if "max_calls" in made:
        raise ValueError(f"{method}: max_calls is the same for all tasks, so that ray_remote_args_fn cannot give it")
    return dict(made)


def _custom(method: str, value: Any) -> dict[str, Any]:
    """Checks `resources`: amounts of what weir.init(resources=…) declared, which bound the number of workers."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{method}: resources is a dict of amounts by name, not {type(value).__name__}")
    for name in ("CPU", "GPU", "memory"):
        if name in value:
            raise ValueError(f"{method}: resources are those of other names; {name} is num_cpus, num_gpus or memory")
    for name, amount in value.items():
        if isinstance(amount, bool) or not isinstance(amount, (int, float)) or amount < 0:
            raise ValueError(f"{method}: resources[{name!r}] is a number of at least 0, not {amount!r}")
    wanted = {str(name): float(amount) for name, amount in value.items() if amount}
    return {"resources": wanted} if wanted else {}


class Transforms:
    """What Dataset inherits: each method adds one operator."""

    _op: Op
    _context: DataContext

    if TYPE_CHECKING:

        def _then(self, op: Op) -> Dataset: ...

        def schema(self, fetch_if_missing: bool = True) -> Schema | None: ...

        def columns(self, fetch_if_missing: bool = True) -> list[str] | None: ...

    # ---- transforming: functions ----

    def _call(
        self,
        kind: str,
        fn: Any,
        compute: Any,
        concurrency: Any,
        arguments: Mapping[str, Any],
        ray_remote_args: Mapping[str, Any],
        **more: Any,
    ) -> Dataset:
        import sys

        from weir import _call

        inference = sys.modules.get("weir.torch_inference")
        if inference is not None and issubclass(fn if isinstance(fn, type) else type(fn), inference.TorchInference):
            fn = inference.checked(fn, more.get("fn_args"), more.get("fn_kwargs"), arguments.get("num_gpus"))
        resources = remote_args(kind, arguments, ray_remote_args, warns=True)
        _tell_of_concurrency(concurrency)
        strategy: Any = choose(fn, compute, concurrency)
        if not is_callable_class(fn):
            for name in ("max_restarts", "max_task_retries"):
                if ray_remote_args.get(name) is not None:
                    raise ValueError(f"{kind}: Invalid option keyword {name} for remote functions: it is one of actors, which classes run in")
        if isinstance(strategy, ActorPoolStrategy) and not is_callable_class(fn):
            # A function in actors is a function in so many workers.
            strategy = TaskPoolStrategy(None if strategy.max_size == float("inf") else int(strategy.max_size))
        if isinstance(strategy, ActorPoolStrategy) and strategy.max_tasks_in_flight_per_actor is None:
            strategy = copy.copy(strategy)
            strategy.max_tasks_in_flight_per_actor = self._context.max_tasks_in_flight_per_actor
        spec = _call.CallSpec(kind=kind, fn=fn, compute=strategy, context=self._context, **resources, **more)
        if isinstance(strategy, ActorPoolStrategy) and 0 in (ray_remote_args.get("max_restarts"), ray_remote_args.get("max_task_retries")):
            spec.attempts_max = 1
        spec.frames = bool(_plan.rules_of(self._op))
        if spec.kind == "map_batches" and spec.num_gpus and spec.batch_size is None:
            spec.batch_size = "auto"
        if spec.num_gpus and spec.num_cpus:
            import logging

            logging.getLogger("weir").warning(
                "Specifying both num_cpus and num_gpus for map tasks is experimental: each worker of %s holds %g CPUs beside its GPU",
                getattr(fn, "__name__", kind), spec.num_cpus,
            )
        _call.check(spec)
        return self._then(Call(self._op, spec))

    def map(
        self,
        fn: UserFunction | type,
        *,
        compute: Any = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Calls a function for each row, in worker processes: a dict goes in, a dict comes out.

        Args:
            fn: the function; or a class, of which each worker creates one object and calls it. It may be async.
            compute: a TaskPoolStrategy or an ActorPoolStrategy, which says how many workers there are. `concurrency` is
                a shorter way: n is at most n workers (for a class exactly n), and (m, n) a range, for a class.
            fn_args, fn_kwargs: further arguments of the function, after the row.
            fn_constructor_args, fn_constructor_kwargs: arguments of the class.
            num_cpus, num_gpus, memory, resources: what one worker takes of the session's resources, which bounds the
                number of workers. `memory` is in bytes.
            runtime_env: "env_vars" and "working_dir" of the workers.
            label_selector, fallback_strategy, max_calls, accelerator_type: no effect on one machine.
            ray_remote_args_fn, ray_remote_args: another way to give the same options; docs/from-ray-data.md says which
                have an effect.

        >>> import weir
        >>> weir.range(2).map(lambda row: {"double": row["id"] * 2}).take()
        [{'double': 0}, {'double': 2}]
        """
        return self._call(
            "map", fn, compute, concurrency, _resources(locals()), ray_remote_args, **_fn_arguments(locals())
        )

    def map_batches(
        self,
        fn: UserFunction | type,
        *,
        batch_size: int | str | None = None,
        compute: Any = None,
        batch_format: str | None = "default",
        zero_copy_batch: bool = True,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
        udf_modifying_row_count: bool = True,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Calls a function for each batch, in worker processes. A dict of NumPy arrays goes in (or what `batch_format`
        says); a dict of columns, a DataFrame, a Table, or a generator of these comes out. Of a class each worker
        creates one object and calls it.

        Args:
            batch_size: rows in a batch; None: whole blocks; "auto": about 16 MiB.
            batch_format: "numpy" (the default), "pandas", "pyarrow", "torch" or None.
            zero_copy_batch: batches are read-only views of shared memory; False gives copies that may be written to.
            udf_modifying_row_count: False promises that as many rows come out as went in, so that a limit after the
                function bounds the rows that go into it.
            fn, compute, fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs, num_cpus, num_gpus, memory,
                concurrency, resources, runtime_env and the rest: as for map().

        In NumPy batches, a column of integers with nulls is float64 with NaN; docs/python.md has the other types.

        >>> import weir
        >>> ds = weir.range(4).map_batches(lambda batch: {"half": batch["id"] / 2}, batch_size=2)
        >>> ds.take()
        [{'half': 0.0}, {'half': 0.5}, {'half': 1.0}, {'half': 1.5}]
        """
        return self._call(
            "map_batches",
            fn,
            compute,
            concurrency,
            _resources(locals()),
            ray_remote_args,
            batch_size=batch_size,
            batch_format=batch_format,
            zero_copy_batch=zero_copy_batch,
            keeps_rows=not udf_modifying_row_count,
            **_fn_arguments(locals()),
        )

    def map_batches_internal(self, fn: Any, **arguments: Any) -> Dataset:
        """map_batches, under the name that Ray Data's own libraries use.

        >>> import weir
        >>> weir.range(2).map_batches_internal(lambda batch: {"n": batch["id"] + 1}).take()
        [{'n': 1}, {'n': 2}]
        """
        return self.map_batches(fn, **arguments)

    def flat_map(
        self,
        fn: UserFunction | type,
        *,
        compute: Any = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Calls a function for each row; it returns a list of rows, or yields them. If there are none, the row is
        dropped. The arguments are those of map(): `fn`, `compute`, `concurrency` and so on.

        >>> import weir
        >>> weir.range(3).flat_map(lambda row: [row] * row["id"]).take()
        [{'id': 1}, {'id': 2}, {'id': 2}]
        """
        return self._call(
            "flat_map", fn, compute, concurrency, _resources(locals()), ray_remote_args, **_fn_arguments(locals())
        )

    def filter(
        self,
        fn: UserFunction | type | None = None,
        expr: str | Expr | Any | None = None,
        *,
        compute: Any = None,
        fn_args: Iterable[Any] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Iterable[Any] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        ray_remote_args_fn: Callable[[], dict[str, Any]] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Keeps the rows for which a function of the row, or an expression, is true. Rows for which it is false or null
        are dropped.

        Args:
            fn: a function of a row (a dict), or a class with such a function. It runs in workers; the further arguments
                are those of map().
            expr: an expression instead: `weir.col("id") > 2`, a pyarrow expression, or a string. It runs in the engine,
                without workers, and parts of files in which nothing can match are not read.

        >>> import weir
        >>> weir.range(5).filter(expr=weir.col("id") > 2).take()
        [{'id': 3}, {'id': 4}]
        >>> weir.range(5).filter(expr="id % 2 == 1").take()
        [{'id': 1}, {'id': 3}]
        """
        if (fn is None) == (expr is None):
            raise ValueError("Exactly one of 'fn' or 'expr' must be provided.")
        if isinstance(fn, str):
            raise ValueError(f"fn must be a UserDefinedFunction, but got str. A text is an expression: filter(expr={fn!r})")
        if fn is not None and _is_expression(fn):
            expr, fn = fn, None
        if expr is None:
            _outdated.warn("Use 'expr' instead of 'fn' where it can say the same: it runs without Python", UserWarning)
            return self._call(
                "filter", fn, compute, concurrency, _resources(locals()), ray_remote_args, **_fn_arguments(locals())
            )
        if any(a is not None for a in (fn_args, fn_kwargs, fn_constructor_args, fn_constructor_kwargs)):
            raise ValueError(
                "when 'expr' is used, 'fn_args/fn_kwargs' or 'fn_constructor_args/fn_constructor_kwargs' cannot be used."
            )
        if isinstance(expr, str):
            _outdated.warn(f"String expressions are deprecated in Ray Data: from ray.data.expressions import col, and col('column') > 5 instead of {expr!r}")
        _tell_of_concurrency(concurrency)
        predicate = as_expression(expr)
        if isinstance(compute, ActorPoolStrategy) and not (predicate.needs_python() and _has_class(predicate)):
            raise ValueError("filter by an expression has no object to keep in actors: leave compute out, or give a TaskPoolStrategy")
        wanted = remote_args("filter", _resources(locals()), ray_remote_args, warns=True)
        return self._filter_by(predicate, compute, wanted)

    def _filter_by(self, expr: Expr, compute: Any, resources: Mapping[str, Any]) -> Dataset:
        from weir._expr_tree import computed_as

        if not expr.needs_python():
            with computed_as(_plan.rules_of(self._op)):
                return self._then(Filter(self._op, expr._compile_filter(), expr.describe(), expr))
        return self._with_places({}, expr, compute, resources, f"Filter({expr.describe()})")

    # ---- transforming: columns ----

    def with_column(
        self,
        column_name: str,
        expr: Expr,
        *,
        compute: Any = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Adds a column, or replaces the one of that name.

        Args:
            column_name: its name.
            expr: an expression (`weir.col("id") + 1`, `weir.lit("x")`), which runs in the engine. An expression with a
                `udf` runs in workers, for which there are `compute`, `num_cpus` and the rest, as for map().

        >>> import weir
        >>> weir.range(2).with_column("next", weir.col("id") + 1).take()
        [{'id': 0, 'next': 1}, {'id': 1, 'next': 2}]
        """
        return self._with({column_name: expr}, compute, _resources(locals()), ray_remote_args)

    def with_columns(
        self,
        exprs: Mapping[str, Expr] | UnnestExpr | None = None,
        *more_exprs: Mapping[str, Expr] | UnnestExpr,
        compute: Any = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Adds or replaces several columns. Every expression sees the columns as they were before.

        >>> import weir
        >>> weir.range(2).with_columns({"a": weir.col("id") + 1, "b": weir.lit("x")}).take(1)
        [{'id': 0, 'a': 1, 'b': 'x'}]
        """
        from weir.expressions import DownloadExpr, UnnestExpr

        columns: dict[str, Expr] = {}
        for part in ((exprs,) if exprs is not None else ()) + more_exprs:
            if isinstance(part, UnnestExpr):
                known = self.schema() if self._op.is_native else None
                for field in part.expand_projection(None if known is None else known.base_schema):
                    columns[str(field.name)] = field._unalias()
                continue
            if not isinstance(part, Mapping):
                raise WrongObject(f"with_columns takes mappings of names to expressions, or unnest(), not {type(part).__name__}")
            if any(isinstance(expr, DownloadExpr) for expr in part.values()):
                raise ValueError("`with_columns` does not support DownloadExpr: call with_column(name, download(column)) for it")
            columns.update(part)
        if not columns:
            if exprs is None:
                raise ValueError("with_columns needs at least one column")
            return self._then(self._op)
        return self._with(columns, compute, _resources(locals()), ray_remote_args)

    def _with(
        self, columns: Mapping[str, Any], compute: Any, arguments: Mapping[str, Any], extra: Mapping[str, Any]
    ) -> Dataset:
        from weir._expr_tree import computed_as
        from weir.expressions import Expr, UnnestExpr

        resources = remote_args("with_column", arguments, extra, warns=True)
        for name, expr in columns.items():
            if not isinstance(name, str) or not name:
                raise WrongInTask(f"a column's name is a text that is not empty, not {name!r}")
            if isinstance(expr, UnnestExpr):
                raise TypeError("unnest() makes columns of its own names: give it to with_columns as it is")
            if not isinstance(expr, Expr):
                raise no_expression(name, expr)
        if any(expr.needs_python() for expr in columns.values()):
            return self._with_python(columns, compute, resources)
        with computed_as(_plan.rules_of(self._op)):
            words = [f"{quoted(name)}={expr._compile()}" for name, expr in columns.items()]
        return self._then(Step(self._op, "with", words))

    def _with_python(self, columns: Mapping[str, Any], compute: Any, resources: Mapping[str, Any]) -> Dataset:
        return self._with_places(columns, None, compute, resources, "Project")

    def _with_places(
        self, columns: Mapping[str, Any], predicate: Any, compute: Any, resources: Mapping[str, Any], name: str
    ) -> Dataset:
        """Runs expressions in workers. What only the engine can make (random numbers, row numbers) is put into a column
        before, which is dropped afterwards. A class of the user's makes the workers a pool of actors.
        """
        from weir._expr_python import Actor, Projector, Selector, has_class, split_places

        drawn, columns, predicate = split_places(columns, predicate)
        ds: Any = self
        if drawn:
            ds = ds._then(Step(ds._op, "with", [f"{quoted(key)}={expr._compile()}" for key, expr in drawn.items()]))
        exprs = [*columns.values(), *([] if predicate is None else [predicate])]
        rules = _plan.rules_of(self._op)
        made = Projector(columns, tuple(drawn), rules) if predicate is None else Selector(predicate, tuple(drawn), rules)
        if any(map(has_class, exprs)):
            return ds._call(  # type: ignore[no-any-return]
                "map_batches", Actor, compute, None, resources, {}, batch_format="pyarrow", name=name,
                fn_constructor_args=(made,),
            )
        return ds._call(  # type: ignore[no-any-return]
            "map_batches", made, compute, None, resources, {}, batch_format="pyarrow", name=name
        )

    def add_column(
        self,
        col: str,
        fn: UserFunction,
        *,
        batch_format: str | None = "pandas",
        compute: Any = None,
        concurrency: int | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Adds a column, which a function computes from each batch. with_column does the same with an expression, and
        much faster.

        >>> import weir
        >>> weir.range(2).add_column("next", lambda batch: batch["id"] + 1, batch_format="numpy").take()
        [{'id': 0, 'next': 1}, {'id': 1, 'next': 2}]
        """
        if batch_format not in ("pandas", "pyarrow", "numpy"):
            raise ValueError(f"batch_format argument must be one of ['pandas', 'pyarrow', 'numpy'], got: {batch_format}")
        if not isinstance(col, str):
            raise ValueError(f"a column's name is a text, not {col!r}")
        if not callable(fn):
            raise ValueError(f"add_column: `fn` must be a function, not {fn!r}")
        from weir._functions import AddColumn

        return self._call(
            "map_batches",
            AddColumn(col, fn, batch_format),
            compute,
            concurrency,
            _resources(locals()),
            ray_remote_args,
            batch_format=batch_format,
            zero_copy_batch=batch_format != "pandas",
            name="MapBatches(add_column)",
        )

    def select_columns(
        self,
        cols: str | list[str],
        *,
        compute: Any = None,
        concurrency: int | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Keeps these columns, in this order. With no columns the number of rows stays: they have a column of nulls
        that the schema does not show, as in Ray Data.

        >>> import weir
        >>> weir.from_items([{"a": 1, "b": 2, "c": 3}]).select_columns(["c", "a"]).take()
        [{'c': 3, 'a': 1}]
        >>> weir.range(5).select_columns([]).count(), weir.range(5).select_columns([]).columns()
        (5, [])
        """
        if isinstance(cols, str):
            cols = [cols]
        if not isinstance(cols, (list, tuple)):
            raise TypeError("select_columns requires 'cols' to be a string or a list of strings.")
        if not all(isinstance(c, str) for c in cols):
            raise ValueError(f"select_columns requires all elements of 'cols' to be strings, not {list(cols)!r}")
        if len(set(cols)) != len(cols):
            raise ValueError(f"select_columns expected unique column names, got duplicate column names: {list(cols)}")
        remote_args("select_columns", _resources(locals()), ray_remote_args, warns=True)
        return self._then(Step(self._op, "select", [quoted(c) for c in cols] or [f"{NO_COLUMN}=null"]))

    def drop_columns(
        self,
        cols: list[str],
        *,
        compute: Any = None,
        concurrency: int | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Drops these columns.

        >>> import weir
        >>> weir.from_items([{"a": 1, "b": 2}]).drop_columns(["a"]).take()
        [{'b': 2}]
        """
        if isinstance(cols, str):
            cols = [cols]
        if not isinstance(cols, Iterable) and cols is not None:
            raise WrongArgument(f"drop_columns takes a list of columns (cols), not {cols!r}")
        cols = list(cols or [])
        if len(set(cols)) != len(cols):
            raise ValueError(f"drop_columns expects unique column names, got: {cols}")
        remote_args("drop_columns", _resources(locals()), ray_remote_args, warns=True)
        if not cols:
            return self._then(self._op)
        known = self._known_names()
        if known is not None:
            unknown = [c for c in cols if c not in known]
            if unknown:
                raise KeyError(f"drop_columns: column(s) not found in dataset schema: {unknown}. Available columns: {known}")
            if len(cols) == len(known):  # rows without columns are no rows
                from weir.read_api import from_items

                return self._then(from_items([])._op)
        return self._then(_plan.Drop(self._op, cols))

    def rename_columns(
        self,
        names: list[str] | dict[str, str],
        *,
        concurrency: int | tuple[int, int] | tuple[int, int, int] | None = None,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: float | None = None,
        label_selector: dict[str, str] | None = None,
        fallback_strategy: list[dict[str, Any]] | None = None,
        max_calls: int | None = None,
        resources: dict[str, float] | None = None,
        accelerator_type: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        **ray_remote_args: Any,
    ) -> Dataset:
        """Renames columns: a dict of old to new names, or a list of all names.

        >>> import weir
        >>> weir.range(1).rename_columns({"id": "number"}).take()
        [{'number': 0}]
        """
        if isinstance(names, Mapping):
            mapping = dict(names)
            if not mapping:
                raise ValueError("rename_columns received 'names' with no entries.")
            if len(set(mapping.values())) != len(mapping):
                raise ValueError(f"rename_columns received duplicate values in the 'names': {mapping}")
        elif isinstance(names, (list, tuple)):
            if not names:
                raise ValueError("rename_columns requires 'names' with at least one column name.")
            if len(set(names)) != len(names):
                raise ValueError(f"rename_columns received duplicate values in the 'names': {list(names)}")
            if not all(isinstance(name, str) for name in names):
                raise ValueError(f"rename_columns requires all elements in the 'names' to be strings. Given: {list(names)}")
            known = self.columns()
            if known is None or len(known) != len(names):
                raise ValueError(
                    f"rename_columns requires 'names': {list(names)} length match current schema names: {known}."
                )
            mapping = dict(zip(known, names))
        else:
            raise TypeError(f"rename_columns expected names to be either List[str] or Dict[str, str], got {type(names)}.")
        if not all(isinstance(name, str) for pair in mapping.items() for name in pair):
            raise ValueError(f"rename_columns requires both keys and values in the 'names' to be strings. Given: {mapping}")
        remote_args("rename_columns", _resources(locals()), ray_remote_args, warns=True)
        words = [f"{quoted(old)}={quoted(new)}" for old, new in mapping.items() if old != new]
        return self._then(Step(self._op, "rename", words) if words else self._op)

    def _known_names(self) -> list[str] | None:
        """The names of the columns, if they are known without a run."""
        if not self._op.is_native:
            return None
        schema = self.schema()
        return schema.names if schema is not None else None

    # ---- transforming: rows and blocks ----

    def limit(self, limit: int) -> Dataset:
        """The first rows. As soon as they are there, everything before them stops.

        >>> import weir
        >>> weir.range(10**9).limit(2).take_all()
        [{'id': 0}, {'id': 1}]
        """
        if isinstance(limit, bool) or not hasattr(limit, "__index__"):
            raise TypeError(f"limit is a number of rows, not {type(limit).__name__}")
        return self._then(Limit(self._op, min(max(0, int(limit)), ROWS_MAX)))

    def random_sample(self, fraction: float, *, seed: int | RandomSeedConfig | None = None) -> Dataset:
        """Keeps each row with the probability `fraction`. With a seed these are the same rows in each run; with a
        RandomSeedConfig they differ from run to run of the Dataset.

        >>> import weir
        >>> 400 < weir.range(1000).random_sample(0.5, seed=1).count() < 600
        True
        """
        if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
            raise TypeError(f"fraction is a number between 0 and 1, not {type(fraction).__name__}")
        if not 0 <= fraction <= 1:
            raise ValueError("Fraction must be between 0 and 1.")
        from weir._exchange import checked_seed

        try:
            checked = checked_seed(seed)
        except TypeError as error:
            raise ValueError(str(error)) from None
        if self._op.rows() == 0:
            raise ValueError("Cannot sample from an empty Dataset.")
        return self._then(Sample(self._op, fraction, checked))

    def union(self, *other: Dataset) -> Dataset:
        """The rows of this Dataset, then those of the others.

        >>> import weir
        >>> weir.range(1).union(weir.range(2)).take_all()
        [{'id': 0}, {'id': 0}, {'id': 1}]
        """
        for ds in other:
            if not isinstance(ds, Transforms):
                raise no_dataset("union", ds)
        return self._then(_plan.Union(self._op, [ds._op for ds in other]) if other else self._op)

    def repartition(
        self,
        num_blocks: int | None = None,
        target_num_rows_per_block: int | None = None,
        *,
        strict: bool = False,
        shuffle: bool = False,
        keys: str | list[str] | None = None,
        sort: bool = False,
    ) -> Dataset:
        """Cuts the rows into a number of blocks, or into blocks of a number of rows. The rows keep their order, unless
        there are `keys`.

        Args:
            num_blocks: the number of blocks, whose sizes differ by at most one row.
            target_num_rows_per_block: the number of rows in a block, except the last; rows stream through.
            strict: for target_num_rows_per_block, whose blocks are exact in any case.
            shuffle: puts the rows in a random order first, which is the same each time.
            keys: a column or several; rows that are equal in them come into the same block, by a hash that is the same
                on every machine. Blocks without rows are left out.
            sort: with `keys`: each block is in the order of these columns.

        >>> import weir
        >>> ds = weir.range(10).repartition(3)
        >>> [len(batch["id"]) for batch in ds.iter_batches(batch_size=None)]
        [3, 3, 4]
        >>> ds = weir.range(10).repartition(target_num_rows_per_block=4)
        >>> [len(batch["id"]) for batch in ds.iter_batches(batch_size=None)]
        [4, 4, 2]
        """
        if num_blocks is None and target_num_rows_per_block is None:
            raise ValueError("Either `num_blocks` or `target_num_rows_per_block` must be set")
        if num_blocks is not None and target_num_rows_per_block is not None:
            raise ValueError("Only one of `num_blocks` or `target_num_rows_per_block` must be set, but not both.")
        if target_num_rows_per_block is not None and shuffle:
            raise ValueError("`shuffle` must be False when `target_num_rows_per_block` is set.")
        if target_num_rows_per_block is not None:
            for name, value in (("keys", keys is not None), ("sort", sort)):
                if value:
                    warnings.warn(f"`{name}` is ignored when `target_num_rows_per_block` is set.", stacklevel=2)
        elif strict:
            warnings.warn(
                "`strict` is ignored when `target_num_rows_per_block` is not set. Use `target_num_rows_per_block` instead of "
                "`num_blocks` to enable `strict` mode.",
                stacklevel=2,
            )
        elif sort and not keys:
            warnings.warn("`sort` is ignored without `keys`: there is nothing to sort by. Dataset.sort(…) before it sorts everything.", stacklevel=2)
        what, count = (
            ("num_blocks", num_blocks) if num_blocks is not None else ("target_num_rows_per_block", target_num_rows_per_block)
        )
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            raise TypeError(f"{what} is a number, not {type(count).__name__}")
        assert count is not None
        if count < 1:
            raise WrongCount(f"{what} must be at least 1, not {count}")
        if num_blocks is not None:
            from weir._exchange import RepartitionKeys, Shuffle, check_columns

            if keys:
                keys = [keys] if isinstance(keys, str) else keys
                if not isinstance(keys, Iterable) or not all(isinstance(key, str) for key in keys):
                    raise WrongArgument(f"keys is a list of columns, not {keys!r}")
                check_columns(self, keys)  # type: ignore[arg-type]
                return self._then(RepartitionKeys(self._op, int(count), keys, sort))
            return self._then(Repartition(Shuffle(self._op, _SHUFFLED_SEED, of_repartition=True) if shuffle else self._op, int(count)))
        return self._then(RepartitionRows(self._op, int(count), strict))


def _is_expression(value: Any) -> bool:
    if isinstance(value, str):
        return True
    if callable(value):
        return False
    return hasattr(value, "_compile") or type(value).__module__.startswith("pyarrow")


def _has_class(expr: Expr) -> bool:
    from weir._expr_python import has_class

    return has_class(expr)


def as_expression(expr: Any) -> Expr:
    """A weir expression, made from a weir expression, a pyarrow expression or a string."""
    from weir.expressions import Expr

    if isinstance(expr, Expr):
        return expr
    if isinstance(expr, str):
        from weir._expr_parse import parse_filter

        return parse_filter(expr)
    if type(expr).__module__.startswith("pyarrow"):
        from weir._expr_pyarrow import from_pyarrow

        return from_pyarrow(expr)
    raise WrongArgument(f"expr is an expression, such as weir.col('a') > 2, or a text, not {type(expr).__name__}")


_RESOURCE_NAMES = (
    "num_cpus",
    "num_gpus",
    "memory",
    "label_selector",
    "fallback_strategy",
    "max_calls",
    "resources",
    "accelerator_type",
    "runtime_env",
    "ray_remote_args_fn",
)


def _resources(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in _RESOURCE_NAMES if arguments.get(name) is not None}


def _fn_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in ("fn_args", "fn_constructor_args"):
        value = arguments.get(name)
        if value is not None and not isinstance(value, Iterable):
            raise WrongInTask(f"{name} is a list of arguments, not {value!r}")
        out[name] = tuple(value) if value is not None else None
    for name in ("fn_kwargs", "fn_constructor_kwargs"):
        value = arguments.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise WrongInTask(f"{name} is a dict of arguments by name, not {value!r}")
        out[name] = dict(value) if value is not None else None
    return out
