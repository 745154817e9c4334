"""Measurements of Interlock, with their tables and plots. Imports `rig`."""
