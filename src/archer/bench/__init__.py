"""Measuring the engine on this machine: what a step costs, and how near that is to what arithmetic allows."""
