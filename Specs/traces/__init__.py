"""The calls of Redis scripts as steps of the specifications."""
