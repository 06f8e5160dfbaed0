"""What this machine has: devices, threads, memory, signals."""
