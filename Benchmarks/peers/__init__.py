"""The software that Interlock is compared to: other libraries, etcd and Envoy. Imports `rig` and `figures`."""
