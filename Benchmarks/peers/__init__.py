"""What Interlock is measured beside: other libraries, etcd and Envoy. Imports `rig` and `figures`."""
