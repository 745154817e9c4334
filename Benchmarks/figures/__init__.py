"""What is measured of Interlock, with its tables and plots. Imports `rig`."""
