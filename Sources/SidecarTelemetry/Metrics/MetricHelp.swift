/// The `# HELP` texts of Interlock's metrics, which swift-metrics cannot carry.
enum MetricHelp {
    static func text(of name: String) -> String {
        texts[name] ?? "No description."
    }

    private static let texts = [
        "interlock_access_log_entries_total": "Entries of Envoy's access log, by what they told of permits.",
        "interlock_breaker_forced": "1 for the state that an operator forces on a service's breaker, 0 for the others.",
        "interlock_breaker_state": "1 for the state a service's breaker is in as this sidecar acts, 0 for the others.",
        "interlock_breaker_trips_total": "How often this sidecar saw a service's breaker open, whoever opened it.",
        "interlock_build_info": "Always 1; its label is the version of Interlock.",
        "interlock_descriptor_counters":
            "Combinations of values of a domain that have counts of their own, as far as this sidecar knows.",
        "interlock_descriptor_decisions_total": "Decisions about descriptors of Envoy's rate limit service, by rule.",
        "interlock_descriptor_requests_alone_total": "Rate limit requests answered without Redis, which was away or late.",
        "interlock_descriptor_requests_failed_total": "Rate limit requests that Redis refused.",
        "interlock_descriptor_unknown_domains_total": "Rate limit requests for domains that are not configured.",
        "interlock_descriptors_unmatched_total": "Descriptors of a domain that met no rule.",
        "interlock_events_dropped_total": "Events that were not told because whoever should hear of them was too slow.",
        "interlock_fleet_sidecars": "Live sidecars when Redis was last heard of.",
        "interlock_grpc_request_seconds": "Time from a call's head to its answer at the gRPC door.",
        "interlock_grpc_requests_total": "Calls answered by the gRPC door, by method and status.",
        "interlock_http_refusals_total":
            "Requests that the HTTP door refused before they came to a route, by the problem's code.",
        "interlock_http_request_seconds": "Time from a request's head to its answer's at the HTTP door, waits included.",
        "interlock_http_requests_total": "Requests answered by the HTTP door, by route and class of status.",
        "interlock_leases_looked_after":
            "Leases that are extended for their holders, and those of which the holders are only told.",
        "interlock_leases_lost_total": "Leases whose holders were told that they are lost, by reason.",
        "interlock_limit_crowded_total": "Calls that were counted together, because a service had max_subjects subjects already.",
        "interlock_limit_decisions_total": "Decisions about calls by a service's limits.",
        "interlock_limit_decision_seconds": "Time that Redis took to judge a batch of calls.",
        "interlock_limit_refusals_total": "Calls that a limit refused, by the limit that did.",
        "interlock_limit_remembered_refusals_total": "Calls that were refused without asking Redis.",
        "interlock_limit_shadow_refusals_total": "Calls that a shadow limit would have refused.",
        "interlock_limit_subjects": "Subjects of a service that have counters of their own, as far as this sidecar knows.",
        "interlock_limit_waiting": "Calls that wait for a service's limits here.",
        "interlock_lock_acquire_seconds": "Time from a lock's request to its grant, waits included.",
        "interlock_lock_decisions_total": "Answers to requests for locks.",
        "interlock_lock_releases_total": "Answers to releases of locks.",
        "interlock_locks_held": "Leases granted here that stand.",
        "interlock_locks_waiting": "Callers that wait for a lock here.",
        "interlock_log_lines_dropped_total": "Lines of the log that were not written because nobody read standard error.",
        "interlock_metrics_dropped_total": "Metrics not kept because there are too many, or one of another type has the name.",
        "interlock_outcomes_total": "Outcomes of permitted calls, as the breaker took what was reported.",
        "interlock_permit_decisions_total": "Answers to requests for permits.",
        "interlock_permit_refusals_total": "Permits that were refused, by reason.",
        "interlock_permits_under_way": "Permits whose outcome is awaited here.",
        "interlock_permits_unreported_total": "Permits refused because too many of the service await their outcome.",
        "interlock_permits_waiting": "Calls that wait here for a place, or through a pause that a limit made.",
        "interlock_probe_seconds": "Time that a probe of a service took.",
        "interlock_probes_total": "Probes of a service that this sidecar made, by result.",
        "interlock_proxy_request_seconds":
            "Time from the head of a call through the proxy to its answer's, waits and further tries included.",
        "interlock_quota_buckets": "Buckets of quotas that data planes report to this sidecar.",
        "interlock_quota_unassigned_total": "Reports of a bucket for which nothing could be assigned.",
        "interlock_redis_commands_total": "Commands sent to Redis.",
        "interlock_redis_connected": "1 while Redis is connected, else 0.",
        "interlock_redis_connection_failures_total": "Connections to Redis that failed or were lost.",
        "interlock_redis_connects_total": "Connections to Redis that were made.",
        "interlock_redis_refusals_total":
            "Commands that Redis refused although it is there: at maxmemory, by its ACL, as a replica.",
        "interlock_redis_primaries_connected": "Primaries of the Redis Cluster that are connected.",
        "interlock_redis_slots_covered": "Slots of the Redis Cluster that are served by somebody, of 16384.",
        "interlock_redis_switches_total":
            "How often Sentinels named another primary, or a primary of a cluster left its slots to others.",
        "interlock_redis_round_trip_seconds": "Time from sending a command to Redis to its answer.",
        "interlock_refused_logins_total": "API keys that were shown and are none.",
        "interlock_resp_command_seconds": "Time from a command's arrival at the RESP door to its answer, waits included.",
        "interlock_resp_commands_total": "Commands that came to the RESP door.",
        "interlock_resp_errors_total": "Errors that the RESP door answered with, by their first word.",
        "interlock_service_places_in_use": "Places for calls to a service that permits have here, whether bounded or not.",
        "interlock_spans_total": "Spans of traced calls, by what became of them.",
        "interlock_tls_handshake_failures_total": "TLS handshakes that failed, by listener.",
        "interlock_upstream_request_seconds":
            "Time from the beginning of a try at an upstream to its answer's head or its failure.",
        "process_cpu_seconds_total": "Processor time of this process, user and system.",
        "process_max_fds": "The most file descriptors that this process may open.",
        "process_open_fds": "Open file descriptors of this process.",
        "process_resident_memory_bytes": "Resident memory of this process.",
        "process_start_time_seconds": "When this process started, in seconds of the Unix epoch.",
    ]
}
