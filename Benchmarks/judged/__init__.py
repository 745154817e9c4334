"""Other lock software under the load, the faults and the judge of Interlock. `Benchmarks/judge.py` starts it."""
