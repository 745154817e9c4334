"""Unit tests of the benchmarks' own code. `make test` runs them."""
