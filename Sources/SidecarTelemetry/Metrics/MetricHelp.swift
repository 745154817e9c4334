/// The `# HELP` texts of Interlock's metrics, which swift-metrics cannot carry.
enum MetricHelp {
    static func text(of name: String) -> String {
        if let text = texts[name] { return text }
        guard let current = formerNames.first(where: { $0.value == name })?.key else { return "No description." }
        return "Deprecated: use \(current)."
    }

    /// The former names of metrics, by name. Both names are shown for one version.
    static let formerNames = [
        "interlock_descriptor_requests_local_total": "interlock_descriptor_requests_alone_total",
        "interlock_leases_tracked": "interlock_leases_looked_after",
        "interlock_limit_subject_overflows_total":
            "interlock_limit_crowded_total",
        "interlock_login_failures_total": "interlock_refused_logins_total",
        "interlock_permits_active": "interlock_permits_under_way",
        "interlock_service_slots_in_use": "interlock_service_places_in_use",
    ]

    private static let texts = [
        "interlock_access_log_entries_total": "Entries of Envoy's access log, by their effect on permits.",
        "interlock_breaker_forced": "1 for the state that an operator has forced on a service's breaker, 0 for other states.",
        "interlock_breaker_state": "1 for the current state of a service's breaker in this sidecar, 0 for other states.",
        "interlock_breaker_trips_total": "Times that this sidecar saw a service's breaker open, whichever sidecar opened it.",
        "interlock_build_info": "Always 1; its label is the version of Interlock.",
        "interlock_descriptor_counters":
            "Descriptor values of a domain with their own counters, as known to this sidecar.",
        "interlock_descriptor_decisions_total": "Decisions about descriptors of Envoy's rate limit service, by rule.",
        "interlock_descriptor_requests_failed_total": "Rate limit requests that failed because Redis rejected them.",
        "interlock_descriptor_requests_local_total":
            "Rate limit requests answered without Redis because it was unreachable or slow.",
        "interlock_descriptor_unknown_domains_total": "Rate limit requests for unknown domains.",
        "interlock_descriptors_unmatched_total": "Descriptors of a domain that matched no rule.",
        "interlock_events_dropped_total": "Events dropped because a listener was too slow.",
        "interlock_fleet_sidecars": "Live sidecars at the last contact with Redis.",
        "interlock_grpc_request_seconds": "Time from the headers of a gRPC call to its response.",
        "interlock_grpc_requests_total": "Calls answered by the gRPC API, by method and status.",
        "interlock_http_refusals_total":
            "Requests that the HTTP API rejected before routing, by error code.",
        "interlock_http_request_seconds": "Time from the headers of an HTTP request to those of its response, including waits.",
        "interlock_http_requests_total": "Requests answered by the HTTP API, by route and status class.",
        "interlock_leases_lost_total": "Leases whose holders were notified of their loss, by reason.",
        "interlock_leases_tracked":
            "Leases that this sidecar renews for their holders or watches for loss.",
        "interlock_limit_decision_seconds": "Time that Redis took to decide a batch of calls.",
        "interlock_limit_decisions_total": "Decisions by a service's limits.",
        "interlock_limit_refusals_total": "Calls refused, by limit.",
        "interlock_limit_remembered_refusals_total": "Calls refused from memory, without a request to Redis.",
        "interlock_limit_shadow_refusals_total": "Calls that a shadow limit would have refused.",
        "interlock_limit_subject_overflows_total":
            "Calls counted together because the service already had max_subjects subjects.",
        "interlock_limit_subjects": "Subjects (tenants) of a service with their own counters, as known to this sidecar.",
        "interlock_limit_waiting": "Calls waiting in this sidecar for a service's limits.",
        "interlock_lock_acquire_seconds": "Time from the request for a lock to its grant, including waits.",
        "interlock_lock_decisions_total": "Lock requests, by decision.",
        "interlock_lock_releases_total": "Lock releases, by result.",
        "interlock_locks_held": "Leases granted by this sidecar that are still held.",
        "interlock_locks_waiting": "Callers waiting for a lock in this sidecar.",
        "interlock_log_lines_dropped_total": "Log lines dropped because standard error was blocked.",
        "interlock_login_failures_total": "Failed logins.",
        "interlock_metrics_dropped_total": "Metrics dropped because there are too many, or because another type has the name.",
        "interlock_outcomes_total": "Outcomes of permitted calls, as classified by the breaker.",
        "interlock_permit_decisions_total": "Permit requests, by decision.",
        "interlock_permit_refusals_total": "Refused permits, by reason.",
        "interlock_permits_active": "Permits granted by this sidecar whose outcome is pending.",
        "interlock_permits_unreported_total": "Permits refused because too many outcomes of the service are pending.",
        "interlock_permits_waiting": "Calls waiting in this sidecar for a slot or until a pause ends.",
        "interlock_probe_seconds": "Duration of a probe.",
        "interlock_probes_total": "Probes that this sidecar made, by service and result.",
        "interlock_proxy_request_seconds":
            "Time from the headers of a proxied call to those of its response, including waits and retries.",
        "interlock_quota_buckets": "Quota buckets that data planes report to this sidecar.",
        "interlock_quota_unassigned_total": "Bucket reports for which no quota could be assigned.",
        "interlock_redis_commands_total": "Commands sent to Redis.",
        "interlock_redis_connected": "1 while Redis is connected, else 0.",
        "interlock_redis_connection_failures_total": "Connections to Redis that failed or were lost.",
        "interlock_redis_connects_total": "Connections to Redis that were established.",
        "interlock_redis_primaries_connected": "Connected primaries of the Redis Cluster.",
        "interlock_redis_refusals_total":
            "Commands that Redis rejected, for example at maxmemory, by its ACL or as a replica.",
        "interlock_redis_round_trip_seconds": "Time from sending a command to Redis to its reply.",
        "interlock_redis_slots_covered": "Hash slots of the Redis Cluster that a primary serves, out of 16384.",
        "interlock_redis_switches_total":
            "Switches to a new primary named by Sentinels, or to a new owner of a cluster's hash slots.",
        "interlock_resp_command_seconds": "Time from the arrival of a RESP command to its reply, including waits.",
        "interlock_resp_commands_total": "Commands received by the RESP API.",
        "interlock_resp_errors_total": "Errors returned by the RESP API, by their first word.",
        "interlock_service_slots_in_use": "Concurrent calls to a service that hold a permit of this sidecar, limited or not.",
        "interlock_spans_total": "Spans of traced calls, by outcome.",
        "interlock_tls_handshake_failures_total": "TLS handshakes that failed, by listener.",
        "interlock_upstream_request_seconds":
            "Time from the start of an upstream attempt to the response headers or the failure.",
        "process_cpu_seconds_total": "User and system CPU time of this process, in seconds.",
        "process_max_fds": "Maximum number of file descriptors that this process may open.",
        "process_open_fds": "Open file descriptors of this process.",
        "process_resident_memory_bytes": "Resident memory of this process, in bytes.",
        "process_start_time_seconds": "Start time of this process, in seconds since the Unix epoch.",
    ]
}
