"""What is measured of Interlock, and the tables and plots of it. Imports `rig`."""
