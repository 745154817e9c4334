"""The servers of a measurement, clients for them, and load. Imports neither `figures` nor `peers`."""
