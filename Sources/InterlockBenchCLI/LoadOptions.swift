import ArgumentParser
import Glibc
import InterlockClient
import InterlockCommandLine
import InterlockCore
internal import InterlockJudge
import InterlockLoad

/// The options of all workloads of `interlock bench`.
struct LoadOptions: ParsableArguments {
    // MARK: Target

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp(
            "The sidecars to test: HOST:PORT, unix:PATH or redis://:KEY@HOST:PORT. Without this option, starts a fleet.",
            valueName: "address"))
    var sidecars: [String] = []

    @Option(
        name: .customLong("service"), parsing: .upToNextOption,
        help: ArgumentHelp(
            "The services of those sidecars to call; limit, permit and proxy need at least one.", valueName: "name"))
    var serviceNames: [String] = []

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("The HTTP addresses of those sidecars, in the same order, for the proxy.", valueName: "host:port"))
    var http: [String] = []

    @Option(name: .customLong("fleet"), help: ArgumentHelp("The number of sidecars to start.", valueName: "n"))
    var sidecarCount = 2

    @Option(
        name: .customLong("services"),
        help: ArgumentHelp("The number of additional services in the started fleet; only these are called.", valueName: "n"))
    var extraServiceCount = 0

    @Option(
        help: ArgumentHelp(
            "The Redis of the started fleet: one server, a primary with replicas and three Sentinels, or a cluster.",
            valueName: "topology"))
    var topology = TopologyArgument.single

    @Option(help: ArgumentHelp("The number of primaries with --topology cluster.", valueName: "n"))
    var primaries = 3

    @Option(
        help: ArgumentHelp(
            "The number of replicas per primary with --topology sentinel or cluster. (default: 2 and 1)", valueName: "n"))
    var replicas: Int?

    @Option(help: ArgumentHelp("The sidecars' locks.wait_replicas, if there are replicas.", valueName: "n"))
    var waitReplicas = 0

    // MARK: Load

    @Option(help: ArgumentHelp("Operations per second, as from independent callers (Poisson).", valueName: "n"))
    var rate: Double?

    @Flag(help: "Send each client's next request as soon as the previous one is answered, to find the highest throughput.")
    var closedLoop = false

    @Option(
        name: .customLong("clients"),
        help: ArgumentHelp("The number of connections, spread across the sidecars.", valueName: "n"))
    var clientCount = 64

    @Option(
        help: .duration("How long to run.", default: DurationArgument(.seconds(30))),
        transform: DurationArgument.init(argument:))
    var duration = DurationArgument(.seconds(30))

    @Option(
        name: .customLong("names"), help: ArgumentHelp("The number of different locks and subjects.", valueName: "n"))
    var nameCount = 1000

    @Option(help: ArgumentHelp("The distribution of the names: uniform or zipf:EXPONENT.", valueName: "skew"))
    var skew = SkewArgument(.uniform)

    @Option(help: ArgumentHelp("How long a lock is held or a call takes: a duration or a range.", valueName: "range"))
    var hold = HoldArgument(.zero ... .milliseconds(5))

    @Option(help: .duration("The length of a lease."), transform: DurationArgument.init(argument:))
    var ttl: DurationArgument?

    @Option(
        help: .duration("How long an acquire waits.", default: DurationArgument(.seconds(5))),
        transform: DurationArgument.init(argument:))
    var wait = DurationArgument(.seconds(5))

    @Option(help: ArgumentHelp("The weights of a mixed run, as in lock=40,limit=40,permit=15,proxy=5.", valueName: "weights"))
    var mix = MixArgument(WorkloadWeights())

    // MARK: Faults

    @Option(
        help: ArgumentHelp(
            "The faults to inject into the started fleet: all, none, or some of \(FaultKind.injectable.map(\.rawValue).joined(separator: ",")).",
            valueName: "kinds"))
    var faults = FaultsArgument([])

    @Option(help: ArgumentHelp("The random seed; by default, a new one for each run.", valueName: "n"))
    var seed: UInt64?

    // MARK: Output

    @Option(help: ArgumentHelp("Write the report as JSON to this file; - prints it instead of the table.", valueName: "file"))
    var json: String?

    @Option(help: ArgumentHelp("Write the report as an HTML page with plots to this file.", valueName: "file.html"))
    var report: String?

    @Option(help: ArgumentHelp("Record every client observation in this file, for `bench check`.", valueName: "file"))
    var history: String?

    func validate() throws {
        guard rate == nil || !closedLoop else { throw ValidationError("--rate and --closed-loop cannot be used together") }
        if let rate, !(rate > 0 && rate <= 10_000_000) {
            throw ValidationError("--rate: expected a number above 0 and at most 10000000, got \(rate)")
        }
        guard (1...100_000).contains(clientCount) else {
            throw ValidationError("--clients: expected 1 to 100000, got \(clientCount)")
        }
        guard (1...NameSampler.maximumNames).contains(nameCount) else {
            throw ValidationError("--names: expected 1 to \(NameSampler.maximumNames), got \(nameCount)")
        }
        guard duration.duration > .zero else { throw ValidationError("--duration: expected more than 0") }
        guard (1...64).contains(sidecarCount) else {
            throw ValidationError("--fleet: expected 1 to 64 sidecars, got \(sidecarCount)")
        }
        guard (0...10_000).contains(extraServiceCount) else {
            throw ValidationError("--services: expected 0 to 10000, got \(extraServiceCount)")
        }
        guard replicas.map({ (topology == .sentinel ? 1...5 : 0...5).contains($0) }) ?? true else {
            throw ValidationError("--replicas: expected \(topology == .sentinel ? 1 : 0) to 5, got \(replicas ?? 0)")
        }
        guard topology != .single || replicas == nil && waitReplicas == 0 else {
            throw ValidationError(
                "--replicas and --wait-replicas need --topology sentinel or cluster: one server has no replicas")
        }
        guard topology == .cluster ? (3...16).contains(primaries) : primaries == 3 else {
            throw ValidationError("--primaries: with --topology cluster, expected 3 to 16, got \(primaries)")
        }
        guard (0...fleetTopology.replicas).contains(waitReplicas) else {
            throw ValidationError("--wait-replicas: expected at most \(fleetTopology.replicas), the number of replicas")
        }
        guard sidecars.isEmpty || topology == .single else {
            throw ValidationError("--topology cannot be used with --sidecars, because it needs a fleet that this command starts")
        }
        let impossible = faults.kinds(on: fleetTopology).subtracting(fleetTopology.faults)
        guard impossible.isEmpty else {
            throw ValidationError(
                "--faults: \(impossible.map(\.rawValue).sorted().joined(separator: ",")) cannot be injected with --topology \(topology.rawValue); "
                    + "expected one or more of \(fleetTopology.faults.map(\.rawValue).joined(separator: ","))")
        }
        guard sidecars.isEmpty || faults.isNone else {
            throw ValidationError("--faults cannot be used with --sidecars, because it needs a fleet that this command starts")
        }
        guard sidecars.isEmpty || extraServiceCount == 0 else {
            throw ValidationError("--services cannot be used with --sidecars; use --service to choose their services")
        }
        guard !sidecars.isEmpty || serviceNames.isEmpty && http.isEmpty else {
            throw ValidationError("--service and --http work only with --sidecars")
        }
        guard http.isEmpty || http.count == sidecars.count else {
            throw ValidationError("--http: expected \(sidecars.count), one for each sidecar, got \(http.count)")
        }
    }

    private var fleetTopology: FleetTopology {
        switch topology {
        case .single: .single
        case .sentinel: .sentinel(replicas: replicas ?? 2)
        case .cluster: .cluster(primaries: primaries, replicas: replicas ?? 1)
        }
    }

    /// Runs a workload, then shows and writes its report.
    /// - Throws: `CommandFailure` if the run fails or a guarantee was violated.
    func run(_ workload: Workload) async throws {
        let bench = try benchRun(workload)
        let progressLine = ProgressLine()
        let report: RunReport
        do {
            report = try await bench.run(
                report: { Terminal.report("bench: \($0)") }, progress: { progressLine.show($0) })
        } catch {
            progressLine.end()
            throw CommandFailure("\(error)", .unavailable)
        }
        progressLine.end()
        try deliver(report)
        guard report.check.isClean else {
            throw CommandFailure("\(report.check.verdict); to reproduce this run, add --seed \(report.seed)", .no)
        }
    }

    /// Writes the report to the requested files, and prints it.
    private func deliver(_ report: RunReport) throws {
        do {
            if let json, json != "-" { try ReportFile(path: json).write(report.json + "\n") }
            if let path = self.report { try ReportFile(path: path).write(HTMLReport(report).text) }
        } catch let error as ReportFileError {
            throw CommandFailure("\(error)", .no)
        }
        Terminal.show(json == "-" ? try report.json : report.table)
    }

    private func benchRun(_ workload: Workload) throws -> BenchRun {
        var plan = LoadPlan(
            workload: workload, sidecars: try endpoints(), services: .named(serviceNames, for: workload))
        plan.pacing = closedLoop ? .closedLoop : .openLoop(rate: rate ?? 1000)
        plan.clients = clientCount
        plan.duration = duration.duration
        plan.names = nameCount
        plan.skew = skew.skew
        plan.hold = hold.range
        plan.ttl = ttl?.duration ?? (faults.isNone ? plan.ttl : BenchRun.leaseUnderFaults)
        plan.wait = wait.duration
        plan.weights = mix.weights
        plan.seed = seed ?? UInt64.random(in: 1...999_999_999)
        if workload == .mixed {
            plan.modes = .mixed
            plan.clientBehavior = .misbehaving
        }
        guard sidecars.isEmpty else { return BenchRun(plan: plan, fleet: nil, historyPath: history) }
        let startedFleet = BenchRun.Fleet(
            program: try Self.sidecarProgram(), sidecars: sidecarCount, extraServices: extraServiceCount,
            faults: faults.kinds(on: fleetTopology), topology: fleetTopology, waitReplicas: waitReplicas)
        return BenchRun(plan: plan, fleet: startedFleet, historyPath: history)
    }

    /// Opens the `interlock` next to this program, and returns a path to the open file. Replacing the program during
    /// the run then has no effect.
    private static func sidecarProgram() throws -> String {
        guard let path = ExecutableDirectory.program(named: "interlock") else {
            throw CommandFailure(
                "cannot start sidecars: there is no `interlock` next to this program; build it, or use running sidecars with "
                    + "--sidecars",
                .unavailable)
        }
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure("cannot open \(path): \(String(cString: strerror(errno)))", .unavailable)
        }
        return "/proc/\(getpid())/fd/\(descriptor)"
    }

    private func endpoints() throws -> [SidecarEndpoint] {
        try sidecars.enumerated().map { number, argument in
            do throws(LoadArgumentError) {
                var endpoint = try SidecarEndpoint(argument: argument, number: number)
                if !http.isEmpty { endpoint.http = try httpAddress(http[number]) }
                return endpoint
            } catch {
                throw CommandFailure("--sidecars, --http: \(error)", .usage)
            }
        }
    }

    private func httpAddress(_ argument: String) throws(LoadArgumentError) -> SidecarEndpoint.HTTPAddress {
        guard case .tcp(let host, let port) = SidecarAddress(argument: argument) else {
            throw LoadArgumentError(expected: "HOST:PORT of an HTTP API", found: "\(RedactedURL(argument))")
        }
        return SidecarEndpoint.HTTPAddress(host: host, port: port)
    }
}
