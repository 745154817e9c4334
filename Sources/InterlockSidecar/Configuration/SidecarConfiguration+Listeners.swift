extension SidecarConfiguration {
    /// Refuses listeners that other hosts reach and that would let anybody in, or let keys be read on the way.
    ///
    /// Runs when the overrides are in place: a flag may open a listener that the file did not.
    func refuseUnguardedListeners(_ findings: ConfigurationFindings) {
        let doors = [(listen.resp, ListenSettings.respPath), (listen.http, ListenSettings.httpPath)]
        for (endpoint, path) in doors where !endpoint.isLoopback {
            refuseUnlessGuarded(endpoint, path, findings)
        }
        if listen.resp == listen.http, listen.resp.port != 0 {
            findings.refuse(
                at: findings.places[ListenSettings.httpPath] ?? findings.places[ListenSettings.respPath] ?? findings.wholeFile,
                path: ListenSettings.httpPath,
                "expected another address than \(ListenSettings.respPath), got \(listen.http) for both"
            )
        }
    }

    private func refuseUnlessGuarded(_ endpoint: SocketEndpoint, _ path: String, _ findings: ConfigurationFindings) {
        let place = findings.places[path] ?? findings.wholeFile
        let keysWereRefused = findings.hasProblem(under: "auth")
        if keys.isEmpty {
            guard !keysWereRefused else { return }
            findings.refuse(
                at: place,
                path: path,
                "\(endpoint) can be reached from other hosts and needs auth.keys; add a key, or listen on 127.0.0.1"
            )
        } else if listen.tls == nil, !listen.allowsPlaintext, !findings.hasProblem(under: "listen.tls") {
            findings.refuse(
                at: place,
                path: path,
                """
                \(endpoint) can be reached from other hosts and would carry keys unencrypted; give listen.tls, \
                or say listen.allow_plaintext: true where the network is private to a pod or a compose project
                """
            )
        }
    }
}
