// swift-tools-version: 6.2
import PackageDescription

/// The language settings of every target in this package.
let houseRules: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// The settings of the targets that run for every request. Their release builds do not check at run time that accesses
/// to memory are exclusive: the checks cost a lock or a proxied call about 10 % of its instructions. Debug builds check,
/// and with them all tests of `make test`. Targets of the libraries cannot use unsafe flags.
let hotPathRules: [SwiftSetting] =
    houseRules + [.unsafeFlags(["-enforce-exclusivity=unchecked"], .when(configuration: .release))]

let nioCore = Target.Dependency.product(name: "NIOCore", package: "swift-nio")
let nioPosix = Target.Dependency.product(name: "NIOPosix", package: "swift-nio")
let nioLocks = Target.Dependency.product(name: "NIOConcurrencyHelpers", package: "swift-nio")
let nioHTTP1 = Target.Dependency.product(name: "NIOHTTP1", package: "swift-nio")
let nioTLS = Target.Dependency.product(name: "NIOTLS", package: "swift-nio")
let nioSSL = Target.Dependency.product(name: "NIOSSL", package: "swift-nio-ssl")
let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let logging = Target.Dependency.product(name: "Logging", package: "swift-log")
let coreMetrics = Target.Dependency.product(name: "CoreMetrics", package: "swift-metrics")
let lifecycle = Target.Dependency.product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let unixSignals = Target.Dependency.product(name: "UnixSignals", package: "swift-service-lifecycle")
let tracing = Target.Dependency.product(name: "Tracing", package: "swift-distributed-tracing")

/// A module from a package that neither library needs. Users of the libraries who pass `traits: []` do not fetch it.
func forPrograms(_ name: String, _ package: String) -> Target.Dependency {
    .product(name: name, package: package, condition: .when(traits: ["Programs"]))
}

let argumentParser = forPrograms("ArgumentParser", "swift-argument-parser")
let histogram = forPrograms("Histogram", "hdrhistogram-swift")
let nioHPACK = forPrograms("NIOHPACK", "swift-nio-http2")
let nioHTTP2 = forPrograms("NIOHTTP2", "swift-nio-http2")
let protobuf = forPrograms("SwiftProtobuf", "swift-protobuf")
let subprocess = forPrograms("Subprocess", "swift-subprocess")
let systemPackage = forPrograms("SystemPackage", "swift-system")

let package = Package(
    name: "interlock",
    products: [
        .executable(name: "interlock", targets: ["InterlockCLI"]),
        .executable(name: "interlock-bench", targets: ["InterlockBenchCLI"]),
        .library(name: "Interlock", targets: ["Interlock"]),
        .library(name: "InterlockClient", targets: ["InterlockClient"]),
    ],
    traits: [
        .default(enabledTraits: ["Programs"]),
        .trait(name: "Programs", description: "Packages that only the programs and the tests need."),
    ],
    dependencies: [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.3"),
        .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
        .package(url: "https://github.com/apple/swift-nio-http2", from: "1.46.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.6"),
        .package(url: "https://github.com/apple/swift-protobuf", from: "1.39.0", traits: []),
        .package(url: "https://github.com/apple/swift-system", from: "1.8.1"),
        .package(url: "https://github.com/HdrHistogram/hdrhistogram-swift", from: "0.2.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/swiftlang/swift-subprocess", from: "1.0.2", traits: []),
    ],
    targets: [
        .systemLibrary(
            name: "CHiredis",
            // No pkg-config: SwiftPM rejects Debian's flags for hiredis, and the default paths suffice.
            providers: [.apt(["libhiredis-dev"])]
        ),
        .systemLibrary(name: "CLibMD", providers: [.apt(["libmd-dev"])]),
        .systemLibrary(name: "CLibYAML", providers: [.apt(["libyaml-dev"])]),
        .target(name: "CArguments"),
        .target(name: "InterlockCore", dependencies: [deque], swiftSettings: houseRules),
        .target(name: "InterlockOutput", dependencies: ["InterlockCore", nioLocks], swiftSettings: houseRules),
        .target(
            name: "RedisClient",
            dependencies: ["CHiredis", "CLibMD", nioCore, nioPosix, nioTLS, nioSSL, deque, logging],
            swiftSettings: houseRules
        ),
        .target(
            name: "Interlock",
            dependencies: [
                "InterlockCore", "RedisClient", nioCore, nioLocks, nioPosix, deque, logging, coreMetrics, lifecycle, tracing,
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            resources: [
                .embedInCode("Locks/fence-counter.lua"), .embedInCode("Locks/fences.lua"),
                .embedInCode("Locks/locks.lua"), .embedInCode("Locks/groups.lua"),
                .embedInCode("Locks/acquire-free.lua"), .embedInCode("Locks/acquire.lua"),
                .embedInCode("Locks/renew.lua"), .embedInCode("Locks/release-quick.lua"), .embedInCode("Locks/release.lua"),
                .embedInCode("Locks/leave.lua"), .embedInCode("Locks/break.lua"), .embedInCode("Locks/inspect.lua"),
                .embedInCode("Locks/counts.lua"), .embedInCode("Locks/lease-state.lua"),
                .embedInCode("Locks/fenced.lua"), .embedInCode("Locks/share-fenced.lua"),
                .embedInCode("Locks/fenced-renew.lua"), .embedInCode("Locks/fenced-release.lua"),
                .embedInCode("Locks/fenced-share-renew.lua"), .embedInCode("Locks/fenced-share-release.lua"),
                .embedInCode("Locks/share.lua"), .embedInCode("Locks/share-renew.lua"),
                .embedInCode("Locks/share-release.lua"),
                .embedInCode("Locks/Quorum/quorum.lua"),
                .embedInCode("Locks/Quorum/quorum-acquire.lua"), .embedInCode("Locks/Quorum/quorum-fence.lua"),
                .embedInCode("Locks/Quorum/quorum-renew.lua"), .embedInCode("Locks/Quorum/quorum-release.lua"),
                .embedInCode("Locks/Quorum/quorum-break.lua"), .embedInCode("Locks/Quorum/quorum-inspect.lua"),
                .embedInCode("RateLimits/batch.lua"), .embedInCode("RateLimits/reply.lua"),
                .embedInCode("Descriptors/quota.lua"),
                .embedInCode("RateLimits/take.lua"), .embedInCode("RateLimits/refund.lua"),
                .embedInCode("RateLimits/peek.lua"), .embedInCode("RateLimits/counters.lua"),
                .embedInCode("RateLimits/throttle.lua"),
                .embedInCode("Breakers/breaker.lua"), .embedInCode("Breakers/breaker-change.lua"),
                .embedInCode("Breakers/breaker-close.lua"), .embedInCode("Breakers/breaker-down.lua"),
                .embedInCode("Breakers/breaker-ends.lua"), .embedInCode("Breakers/breaker-force.lua"),
                .embedInCode("Breakers/breaker-half-open.lua"), .embedInCode("Breakers/breaker-open.lua"),
                .embedInCode("Breakers/breaker-outcome.lua"), .embedInCode("Breakers/breaker-report.lua"),
                .embedInCode("Breakers/breaker-sync.lua"), .embedInCode("Breakers/breaker-trial.lua"),
                .embedInCode("Breakers/breaker-trip.lua"), .embedInCode("Breakers/breaker-up.lua"),
                .embedInCode("Breakers/breaker-vote.lua"), .embedInCode("Breakers/breaker-votes.lua"),
                .embedInCode("Breakers/breaker-window.lua"),
                .embedInCode("Events/publish.lua"),
                .embedInCode("Fleet/fleet.lua"),
            ],
            swiftSettings: houseRules
        ),
        .target(
            name: "InterlockClient",
            dependencies: [
                "RedisClient", "InterlockCore", nioCore, nioLocks, nioPosix, nioSSL, deque, logging, coreMetrics, lifecycle,
            ],
            swiftSettings: houseRules
        ),
        .target(
            name: "InterlockHTTP",
            dependencies: [
                nioCore, nioPosix, nioSSL, nioTLS, nioHTTP1, nioHTTP2, nioHPACK, deque,
            ],
            swiftSettings: hotPathRules
        ),
        .target(
            name: "OTLPMessages", dependencies: [protobuf],
            // The declarations that Tools/protobuf.sh generates the code from.
            exclude: ["opentelemetry"], swiftSettings: houseRules),
        .target(
            name: "EnvoyMessages", dependencies: [protobuf],
            // The declarations that Tools/protobuf.sh generates the code from.
            exclude: ["envoy", "google", "grpc"], swiftSettings: houseRules),
        .target(
            name: "SidecarSettings",
            dependencies: [
                "Interlock", "InterlockCore", "RedisClient", "CLibMD", "CLibYAML", "InterlockHTTP", nioCore, nioSSL,
            ],
            resources: [.embedInCode("configuration.schema.json")],
            swiftSettings: houseRules
        ),
        .target(
            name: "SidecarTelemetry",
            dependencies: [
                "SidecarSettings", "Interlock", "InterlockCore", "RedisClient", "InterlockHTTP", "OTLPMessages",
                "InterlockOutput", nioCore, nioLocks, nioPosix, logging, coreMetrics, lifecycle, nioHTTP1, protobuf,
            ],
            swiftSettings: houseRules
        ),
        .target(
            name: "SidecarListeners",
            dependencies: [
                "SidecarTelemetry", "SidecarSettings", "Interlock", "InterlockCore", "RedisClient", "InterlockHTTP",
                "EnvoyMessages", nioCore, nioLocks, nioPosix, nioSSL, deque, logging, coreMetrics, lifecycle, nioHTTP1, nioHTTP2,
                nioHPACK, nioTLS, protobuf,
            ],
            resources: [.embedInCode("HTTP/openapi.yaml")],
            swiftSettings: hotPathRules
        ),
        .target(
            name: "SidecarProxy",
            dependencies: [
                "SidecarListeners", "SidecarTelemetry", "SidecarSettings", "Interlock", "InterlockCore", "RedisClient",
                "InterlockHTTP", nioCore, nioLocks, nioPosix, deque, logging, nioHTTP1,
            ],
            swiftSettings: hotPathRules
        ),
        .target(
            name: "SidecarConsole",
            dependencies: [
                "SidecarListeners", "SidecarSettings", "Interlock", "InterlockCore", nioCore, nioHTTP1, deque,
            ],
            resources: [
                .embedInCode("console.html"), .embedInCode("console.css"), .embedInCode("console-elements.js"),
                .embedInCode("console.js"),
            ],
            swiftSettings: houseRules
        ),
        .target(
            name: "InterlockSidecar",
            dependencies: [
                "SidecarConsole", "SidecarProxy", "SidecarListeners", "SidecarTelemetry", "SidecarSettings", "Interlock",
                "InterlockCore", "RedisClient", "InterlockHTTP", nioCore, nioLocks, nioPosix, nioSSL, logging, coreMetrics,
                lifecycle, unixSignals, subprocess, nioHTTP1,
            ],
            swiftSettings: houseRules
        ),
        .target(
            name: "InterlockProcesses",
            dependencies: ["InterlockCore", "RedisClient", nioCore, nioLocks, nioPosix, nioSSL, subprocess],
            swiftSettings: houseRules),
        .target(name: "InterlockJudge", dependencies: ["InterlockCore", deque], swiftSettings: houseRules),
        .target(
            name: "InterlockLoad",
            dependencies: [
                "InterlockJudge", "InterlockClient", "Interlock", "InterlockCore", "RedisClient", "InterlockProcesses", nioCore,
                nioLocks, nioPosix,
                deque,
                logging,
                subprocess,
                .product(name: "HeapModule", package: "swift-collections"),
                histogram,
                "InterlockHTTP", nioHTTP1,
            ],
            swiftSettings: houseRules
        ),
        .target(
            name: "InterlockCommandLine",
            dependencies: [
                "CArguments", "Interlock", "InterlockClient", "InterlockCore", "InterlockOutput",
                argumentParser,
            ],
            swiftSettings: houseRules
        ),
        .executableTarget(
            name: "InterlockCLI",
            dependencies: [
                "InterlockCommandLine", "InterlockSidecar", "SidecarConsole", "SidecarListeners", "SidecarSettings",
                "SidecarTelemetry",
                "InterlockClient", "Interlock", "InterlockCore", "InterlockOutput",
                logging, coreMetrics, unixSignals, subprocess,
                argumentParser,
            ],
            swiftSettings: houseRules
        ),
        .executableTarget(
            name: "InterlockBenchCLI",
            dependencies: [
                "InterlockCommandLine", "InterlockClient", "InterlockJudge", "InterlockLoad", "InterlockCore",
                "InterlockOutput", nioLocks, argumentParser,
            ],
            swiftSettings: houseRules
        ),
        .executableTarget(
            name: "InterlockBenchmarks",
            dependencies: [
                "InterlockClient", "Interlock", "InterlockCore", "RedisClient", nioCore, nioPosix, logging,
                argumentParser,
            ],
            path: "Benchmarks/InterlockBenchmarks",
            swiftSettings: houseRules
        ),
        .target(
            name: "InterlockTesting",
            dependencies: ["InterlockCore", "RedisClient", nioCore, nioLocks, nioPosix],
            path: "Tests/Support/InterlockTesting",
            swiftSettings: houseRules
        ),
        .target(
            name: "FuzzTargets",
            dependencies: [
                "InterlockSidecar", "SidecarListeners", "SidecarSettings", "SidecarTelemetry", "InterlockHTTP", "Interlock",
                "InterlockCore", "EnvoyMessages", "RedisClient", "InterlockTesting", nioCore, nioHTTP1,
                .product(name: "NIOEmbedded", package: "swift-nio"), logging, protobuf,
            ],
            path: "Tests/Fuzzing/FuzzTargets",
            swiftSettings: houseRules
        ),
        .systemLibrary(
            name: "CLua", path: "Tests/Simulation/CLua",
            // No pkg-config: SwiftPM rejects Debian's flags for Lua, and the default paths suffice.
            providers: [.apt(["liblua5.1-0-dev", "lua-cjson-dev"])]
        ),
        .target(
            name: "SimulatedRedis", dependencies: ["CLua", "CLibMD"], path: "Tests/Simulation/SimulatedRedis",
            swiftSettings: houseRules),
        .target(
            name: "Simulation",
            dependencies: [
                "SimulatedRedis", "InterlockJudge", "InterlockSidecar", "SidecarListeners", "InterlockHTTP", "EnvoyMessages",
                "Interlock",
                "InterlockCore", "RedisClient", nioCore, nioLocks, nioHTTP1, nioHTTP2, nioHPACK, protobuf, logging,
                .product(name: "HeapModule", package: "swift-collections"),
            ],
            path: "Tests/Simulation/World", swiftSettings: houseRules),
        .executableTarget(
            name: "simulate",
            dependencies: [
                "Simulation", "InterlockJudge", "InterlockCore",
                argumentParser,
            ],
            path: "Tests/Simulation/Program", swiftSettings: houseRules),
        .testTarget(
            name: "SimulatedRedisTests",
            dependencies: ["SimulatedRedis", "InterlockProcesses", "Interlock", "InterlockCore", "RedisClient"],
            swiftSettings: houseRules),
        .testTarget(
            name: "SimulationTests",
            dependencies: [
                "Simulation", "InterlockJudge", "InterlockProcesses", "SidecarSettings", "Interlock", "InterlockCore",
                "SimulatedRedis", "RedisClient", nioCore, subprocess,
                systemPackage,
            ],
            exclude: ["ClientConversations.json"], swiftSettings: houseRules),
        .testTarget(name: "InterlockCoreTests", dependencies: ["InterlockCore"], swiftSettings: houseRules),
        .testTarget(name: "InterlockOutputTests", dependencies: ["InterlockOutput", nioLocks], swiftSettings: houseRules),
        .testTarget(
            name: "RedisClientTests",
            dependencies: [
                "RedisClient", "InterlockProcesses", "InterlockTesting", "InterlockCore", nioCore, nioPosix, nioSSL, logging,
                .product(name: "NIOEmbedded", package: "swift-nio"),
            ],
            swiftSettings: houseRules
        ),
        .testTarget(
            name: "InterlockTests",
            dependencies: [
                "Interlock", "InterlockCore", "RedisClient", "InterlockProcesses", "InterlockTesting", nioCore, nioLocks,
                nioPosix,
                logging, lifecycle,
                unixSignals, tracing, .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
            ],
            swiftSettings: houseRules
        ),
        .testTarget(
            name: "InterlockClientTests",
            dependencies: [
                "InterlockClient", "SidecarConsole", "SidecarListeners", "SidecarSettings", "SidecarTelemetry", "Interlock",
                "InterlockCore", "RedisClient", "InterlockProcesses",
                "InterlockTesting", nioPosix, logging, lifecycle,
            ],
            swiftSettings: houseRules
        ),
        .testTarget(
            name: "InterlockSidecarTests",
            dependencies: [
                "InterlockSidecar", "SidecarConsole", "SidecarProxy", "SidecarListeners", "SidecarSettings", "SidecarTelemetry",
                "Interlock", "InterlockCore", "OTLPMessages", "EnvoyMessages", "RedisClient",
                "InterlockProcesses", "InterlockTesting", "InterlockHTTP", nioCore, nioLocks, nioPosix, nioSSL, logging,
                coreMetrics, lifecycle, nioHTTP1, nioHPACK, protobuf, .product(name: "NIOEmbedded", package: "swift-nio"),
            ],
            swiftSettings: houseRules
        ),
        .testTarget(
            name: "InterlockHTTPTests",
            dependencies: [
                "InterlockCore", "InterlockHTTP", nioCore, nioHTTP1, .product(name: "NIOEmbedded", package: "swift-nio"),
            ], swiftSettings: houseRules),
        .testTarget(
            name: "InterlockLoadTests",
            dependencies: [
                "InterlockJudge", "InterlockClient", "InterlockLoad", "Interlock", "InterlockCore", "RedisClient",
                "InterlockProcesses", "InterlockTesting", nioCore, nioLocks, nioPosix,
            ],
            swiftSettings: houseRules
        ),
        .testTarget(name: "InterlockJudgeTests", dependencies: ["InterlockCore", "InterlockJudge"], swiftSettings: houseRules),
        .testTarget(name: "FuzzTargetsTests", dependencies: ["FuzzTargets", "InterlockCore"], swiftSettings: houseRules),
        .testTarget(
            name: "IntegrationTests",
            dependencies: [
                "SidecarConsole", "SidecarListeners", "InterlockCommandLine", "InterlockCLI", "InterlockBenchCLI",
                "InterlockClient",
                "InterlockJudge",
                "InterlockLoad", "Interlock", "RedisClient", "InterlockCore", "InterlockProcesses",
                "InterlockTesting",
                nioCore, nioLocks,
                nioPosix,
                logging, subprocess,
                systemPackage,
            ],
            exclude: ["Clients"],
            swiftSettings: houseRules
        ),
    ]
)

// The fuzzer's runtime provides `main`, so this target links only in the build of `make fuzz`.
if Context.environment["INTERLOCK_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "InterlockFuzz", dependencies: ["FuzzTargets"], path: "Tests/Fuzzing/InterlockFuzz", swiftSettings: houseRules))
}
