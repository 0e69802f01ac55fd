"""Where Ray kept what tests of programs lean on."""

from weir.compat.lazy import names

__getattr__, __dir__, __all__ = names(
    __name__, "weir.testing", "Semaphore SignalActor async_wait_for_condition run_string_as_driver wait_for_condition", only=True
)
