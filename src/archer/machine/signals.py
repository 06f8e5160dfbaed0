"""Names of signals, for sentences about processes that one of them ended."""

import signal


def signal_name(number: int) -> str:
    """SIGKILL and so on; real-time signals and those of other systems have no name here."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
