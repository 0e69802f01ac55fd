"""Where Ray keeps the policies that hold a run back: names for a setting that weir keeps and says has no effect."""

ENABLED_BACKPRESSURE_POLICIES_CONFIG_KEY = "backpressure_policies.enabled"


class BackpressurePolicy:
    """What must agree before a task starts; the engine's are all asked."""


class ConcurrencyCapBackpressurePolicy(BackpressurePolicy):
    """`concurrency=`."""


class ResourceBudgetBackpressurePolicy(BackpressurePolicy):
    """CPUs, GPUs and memory."""


class DownstreamCapacityBackpressurePolicy(BackpressurePolicy):
    """What waits in front of the next step."""


ENABLED_BACKPRESSURE_POLICIES = [ConcurrencyCapBackpressurePolicy, ResourceBudgetBackpressurePolicy, DownstreamCapacityBackpressurePolicy]
