"""Runs other lock software with the load, faults and judge of Interlock, for `Benchmarks/judge.py`."""
