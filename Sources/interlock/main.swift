import ArgumentParser
import InterlockSidecar
print("x")
