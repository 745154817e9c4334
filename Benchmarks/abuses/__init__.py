"""Abusive clients of a sidecar. Each is a generator: the first step prepares, and every later one continues."""
