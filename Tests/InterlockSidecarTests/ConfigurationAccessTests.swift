import FoundationEssentials
import Glibc
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

@testable import InterlockSidecar
@testable import SidecarListeners
@testable import SidecarSettings

@Suite("Configuration: keys, listeners and secrets")
struct ConfigurationAccessTests {
    private let twoKeys = """
        auth: { keys: [ { name: ops, key_env: OPS, role: admin }, { name: web, key: literal-secret, role: use } ] }

        """

    @Test("A key comes from a variable or from the file")
    func keyComesFromVariableOrFromFile() throws {
        let settings = try configuration(twoKeys, environment: ["OPS": "from-variable"])
        #expect(
            settings.keys == [
                APIKey(name: "ops", secret: "from-variable", role: .admin),
                APIKey(name: "web", secret: "literal-secret", role: .use),
            ]
        )
    }

    @Test(
        "A key that is unusable or ambiguous is rejected",
        arguments: [
            ("{ name: a, key_env: UNSET, role: use }", "auth.keys[0].key_env: the environment variable UNSET is not set"),
            ("{ name: a, key_env: EMPTY, role: use }", "auth.keys[0].key_env: the environment variable EMPTY is empty"),
            (
                "{ name: a, key_env: LINE, role: use }",
                """
                auth.keys[0].key_env: expected a key of printable ASCII without spaces or line breaks, \
                got another value in the environment variable LINE
                """
            ),
            (
                "{ name: a, role: use }",
                """
                auth.keys[0]: expected key_env (an environment variable that holds the key) or key_file \
                (a file that holds it)
                """
            ),
            (
                "{ name: a, key_env: GOOD, key: x, role: use }",
                "auth.keys[0].key: expected only one of key_env, key_file and key"
            ),
            (
                "{ name: a, key_env: GOOD, key_file: /x, role: use }",
                "auth.keys[0].key_file: expected only one of key_env, key_file and key"
            ),
            ("{ name: a, key_env: GOOD, role: root }", "auth.keys[0].role: expected use or admin, got \"root\""),
            ("{ name: a, key_env: GOOD }", "auth.keys[0]: expected the key role: use or admin"),
            (
                "{ name: a, key: x, role: use }, { name: a, key: y, role: use }",
                "auth.keys[1]: duplicate key name \"a\"; each key needs its own name"
            ),
            (
                "{ name: a, key: x, role: use }, { name: b, key: x, role: use }",
                "auth.keys[1]: the keys \"a\" and \"b\" have the same secret; give each its own"
            ),
        ]
    )
    func invalidKey(keys: String, error: String) {
        let environment = ["EMPTY": "", "GOOD": "good", "LINE": "good\n"]
        #expect(configurationErrors(of: "auth: { keys: [ \(keys) ] }", environment: environment) == ["file.yaml:1: \(error)"])
    }

    @Test("A key file is read on each reload, with or without a trailing newline")
    func keyFile() throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let yaml = "auth: { keys: [ { name: ops, key_file: \(folder.path)/key, role: admin } ] }"
        for (content, secret) in [("first", "first"), ("second\n", "second"), ("third\r\n", "third")] {
            try Data(content.utf8).write(to: URL(filePath: "\(folder.path)/key"))
            #expect(try configuration(yaml).keys == [APIKey(name: "ops", secret: secret, role: .admin)])
        }
    }

    @Test(
        "An empty key file is rejected without revealing its content",
        arguments: [
            (nil, "there is no such file"),
            ("", "the file is empty"),
            ("\n", "the file is empty"),
            (String(repeating: "hunter2", count: 1_000), "the file is longer than 4096 bytes; it must contain only the secret"),
            (
                "hunter2\nhunter2\n",
                "expected a key of printable ASCII without spaces or line breaks, got another value in the file"
            ),
        ] as [(String?, String)]
    )
    func invalidKeyFile(content: String?, error: String) throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        if let content { try Data(content.utf8).write(to: URL(filePath: "\(folder.path)/key")) }
        let yaml = "auth: { keys: [ { name: ops, key_file: \(folder.path)/key, role: admin } ] }"
        #expect(configurationErrors(of: yaml) == ["file.yaml:1: auth.keys[0].key_file: \(error)"])
    }

    @Test("A key file that is a directory, a pipe or unreadable is rejected immediately")
    func unreadableKeyFile() throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        func errors(_ path: String) -> [String] {
            configurationErrors(of: "auth: { keys: [ { name: ops, key_file: \"\(path)\", role: admin } ] }")
        }
        #expect(errors(folder.path) == ["file.yaml:1: auth.keys[0].key_file: expected a file, got a directory"])
        try #require(mkfifo("\(folder.path)/pipe", 0o600) == 0)
        #expect(errors("\(folder.path)/pipe") == ["file.yaml:1: auth.keys[0].key_file: the file is empty"])
        // The value may be the key itself, so the error must not repeat it.
        #expect(errors("hunter2") == ["file.yaml:1: auth.keys[0].key_file: there is no such file"])
        guard geteuid() != 0 else { return }
        let file = open("\(folder.path)/key", O_CREAT | O_WRONLY, 0o000)
        try #require(file >= 0)
        close(file)
        #expect(errors("\(folder.path)/key") == ["file.yaml:1: auth.keys[0].key_file: this user may not read the file"])
    }

    @Test(
        "No error repeats a secret",
        arguments: [
            "auth: hunter2", "auth: { keys: hunter2 }", "auth: { keys: [ hunter2 ] }",
            "auth: { keys: [ { name: a, role: use, key: \"hunter2 hunter2\" } ] }",
            "auth: { keys: [ { name: a, role: use, key_env: \"hunter2-\" } ] }",
            "auth: { keys: [ { name: a, role: use, key_file: \"hunter2\" } ] }",
            "auth: { keys: [ { name: a, role: use, key_file: [ hunter2 ] } ] }",
            "auth: { keys: [ { name: a, role: use, key: hunter2 }",
            "redis: { url: \"http://u:hunter2@host\" }", "redis: \"redis://:hunter2@host\"",
            "redis: { url: \"http://host?password=hunter2\" }",
        ]
    )
    func noErrorRepeatsSecret(yaml: String) {
        let errors = configurationErrors(of: yaml)
        #expect(!errors.isEmpty)
        #expect(!errors.joined().contains("hunter2"))
    }

    @Test("Printing or dumping a configuration reveals no secret")
    func printingOrDumpingConfigurationRevealsNoSecret() throws {
        let settings = try configuration(
            twoKeys + "redis: { url: \"redis://me:hunter2@host:6379/1\" }",
            environment: ["OPS": "from-variable"]
        )
        var dumped = ""
        dump(settings, to: &dumped)
        for text in ["\(settings)", String(reflecting: settings), dumped] {
            #expect(text.contains("ops") && text.contains("host:6379"))
            #expect(!text.contains("hunter2") && !text.contains("from-variable") && !text.contains("literal-secret"))
        }
    }

    @Test("A listener that other hosts can reach requires API keys", arguments: ["resp", "http", "grpc"])
    func openListener(api: String) {
        #expect(
            configurationErrors(of: "\nlisten: { \(api): \"0.0.0.0:7379\" }") == [
                """
                file.yaml:2: listen.\(api): 0.0.0.0:7379 can be reached from other hosts and needs auth.keys; \
                add a key, or listen on 127.0.0.1
                """
            ]
        )
    }

    @Test("A public listener with API keys requires TLS or a declaration that the network is private")
    func plaintextListener() throws {
        let listen = "listen: { http: \"[::]:7380\" }"
        let errors = configurationErrors(of: twoKeys + listen, environment: ["OPS": "x"])
        #expect(errors.count == 1)
        #expect(errors.first?.contains("listen.http: [::]:7380 can be reached from other hosts and would carry keys") == true)
        let allowed = "listen: { http: \"[::]:7380\", allow_plaintext: true }"
        #expect(configurationErrors(of: twoKeys + allowed, environment: ["OPS": "x"]).isEmpty)
    }

    @Test("A listener that a flag opens to other hosts requires API keys, and the error names the flag")
    func openedByFlag() {
        let errors = configurationErrors(of: "", flags: .init(resp: "0.0.0.0:1"))
        #expect(errors.count == 1)
        #expect(errors.first?.hasPrefix("--resp: listen.resp: 0.0.0.0:1 can be reached") == true)
    }

    @Test(
        "Only unambiguous loopback addresses count as loopback",
        arguments: [
            ("127.0.0.1", true), ("127.9.9.9", true), ("localhost", true), ("::1", true),
            ("0.0.0.0", false), ("127.1", false), ("::", false), ("127.0.0.1.example.com", false), ("10.0.0.1", false),
        ]
    )
    func onlyUnambiguousLoopbackAddressesCountAsLoopback(host: String, isLoopback: Bool) {
        #expect(SocketEndpoint(host: host, port: 1).isLoopback == isLoopback)
    }

    @Test("A reload cannot remove the last API key while other hosts can reach a listener")
    func keysOfOpenListeners() throws {
        var started = SidecarConfiguration()
        let key = APIKey(name: "web", secret: "correct-horse-battery-staple", role: .use)
        started.keys = [key]
        started.listen.allowsPlaintext = true
        started.listen.http = SocketEndpoint(host: "0.0.0.0", port: 7380)
        try started.checkListenersAreGuarded(keys: [key])
        let error = #expect(throws: ConfigurationError.self) { try started.checkListenersAreGuarded(keys: []) }
        #expect(error?.description.contains("listen.http") == true)
        started.listen.http = SocketEndpoint(host: "127.0.0.1", port: 7380)
        try started.checkListenersAreGuarded(keys: [])
    }

    @Test("An error about a privileged port names the port and the remedy")
    func privilegedPort() {
        func message(_ port: Int) -> String {
            let denied = IOError(errnoCode: EACCES, reason: "bind(descriptor:ptr:bytes:)")
            return SidecarError(cannotListen: "listen.http", at: SocketEndpoint(host: "127.0.0.1", port: port), denied)
                .description
        }
        #expect(
            message(80)
                == "listen.http 127.0.0.1:80: permission denied: ports below 1024 need root or CAP_NET_BIND_SERVICE")
        #expect(message(7380) == "listen.http 127.0.0.1:7380: permission denied")
    }
}
