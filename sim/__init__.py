"""Passes -> records: the step rule, the loops, the drafters, and what can answer a pass."""
