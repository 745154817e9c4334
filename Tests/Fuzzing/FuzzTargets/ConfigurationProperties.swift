internal import InterlockCore
internal import InterlockSidecar
internal import SidecarSettings
internal import RedisClient

/// A file is either a valid configuration, or rejected with the line of every mistake.
enum ConfigurationProperties {
    private static let secret = "never-to-be-shown-4f1d"
    private static let environment = ["INTERLOCK_OPS_KEY": secret, "K": "another-secret-77aa"]
    private static let fileName = "fuzz.yaml"

    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        // Invalid UTF-8 is rejected before it is parsed.
        guard let text = String(validating: input, as: UTF8.self) else { return }
        try checkFile(text)
        if input.count <= 256 { try checkValues(text) }
    }

    private static func load(_ yaml: String) -> Result<SidecarConfiguration, ConfigurationError> {
        Result { () throws(ConfigurationError) in
            try SidecarConfiguration.load(yaml: yaml, fileName: fileName, environment: environment)
        }
    }

    private static func checkFile(_ yaml: String) throws(FuzzFinding) {
        switch (load(yaml), load(yaml)) {
        case (.success(let configuration), let again):
            try expect(again == .success(configuration), "read again, the file is a different configuration: \(again)")
            try checkUse(of: configuration)
        case (.failure(let error), .success): throw FuzzFinding("read again, the file is accepted: \(error)")
        case (.failure(let error), .failure(let again)):
            try expect(again.problems == error.problems, "read again, the file has different mistakes: \(again)")
            try expect(!error.problems.isEmpty, "the file is rejected without a reason")
            let lines = 1 + yaml.unicodeScalars.count { ["\n", "\r", "\u{85}", "\u{2028}", "\u{2029}"].contains($0) }
            for problem in error.problems { try checkProblem(problem, lines: lines) }
        }
    }

    private static func checkProblem(_ problem: ConfigurationProblem, lines: Int) throws(FuzzFinding) {
        let shown = problem.description
        guard case .file(fileName, let line) = problem.location else {
            throw FuzzFinding("a problem is not in the file: \(shown)")
        }
        let concernsWholeFile = problem.path == nil && problem.message.hasPrefix("expected at most")
        // A mistake at the end of the file may be reported after its last line.
        try expect(line.map { (1...(lines + 1)).contains($0) } ?? concernsWholeFile, "a line is not in 1-\(lines + 1): \(shown)")
        try expect(!problem.message.isEmpty, "a problem has no message: \(shown)")
        try expect(shown.utf8.count <= 4096, "a problem of \(shown.utf8.count) bytes: \(shown)")
        let isOneLine = shown.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
        try expect(isOneLine, "a problem has more than one line: \(shown)")
        try expect(!shown.contains(secret), "a problem shows a key: \(shown)")
    }

    /// Checks that an accepted configuration can be used.
    private static func checkUse(of configuration: SidecarConfiguration) throws(FuzzFinding) {
        try expect(!"\(configuration)".contains(secret), "the configuration shows a key")
        for service in configuration.services {
            try expect(service.digest.utf8.count == 16, "the digest of a service is \(service.digest)")
            if let upstream = service.upstream {
                try expect(UpstreamBase(upstream.url) != nil, "the proxy cannot call \(upstream.url)")
            }
            if let probe = service.probe {
                let judge = try? ProbeJudge(probe.expectation)
                try expect(judge != nil, "the monitor cannot evaluate \(probe.expectation)")
            }
        }
    }

    /// Checks the values that have their own grammar.
    private static func checkValues(_ text: String) throws(FuzzFinding) {
        if let endpoint = try? SocketEndpoint(parsing: text) {
            try expect((try? SocketEndpoint(parsing: "\(endpoint)")) == endpoint, "\(text) was read as \(endpoint)")
        }
        if let duration = try? DurationText.parse(text) {
            let shortest = DurationText.shortest(duration)
            try expect((try? DurationText.parse(shortest)) == duration, "\(text) was read as \(duration), spelled \(shortest)")
        }
        if let server = try? RedisConfiguration(url: text), let password = server.password, password.utf8.count > 8 {
            // A password of this length does not occur by chance.
            try expect(!server.displayName.contains(password), "a URL is shown with its password: \(server.displayName)")
        }
    }
}
