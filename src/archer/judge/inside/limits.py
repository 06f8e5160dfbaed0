"""Resource limits that depend on the check and are set by the process itself before it starts."""

import math
import resource


def limit_this_process(cpu_seconds: float, memory_bytes: int) -> None:
    """Caps CPU time and address space for good; hard limits, so that the kernel kills without a signal."""
    lower(resource.RLIMIT_CPU, math.ceil(cpu_seconds))
    limit_memory(memory_bytes)


def limit_memory(memory_bytes: int) -> None:
    lower(resource.RLIMIT_AS, memory_bytes)


def rehearse() -> None:
    """Goes once through setting the limits, without changing them."""
    for which in (resource.RLIMIT_CPU, resource.RLIMIT_AS):
        resource.setrlimit(which, resource.getrlimit(which))


def lower(which: int, value: int) -> None:
    """Sets a limit for good, or leaves it where the one in force is lower already."""
    _, present = resource.getrlimit(which)
    if present != resource.RLIM_INFINITY:
        value = min(value, present)
    resource.setrlimit(which, (value, value))
