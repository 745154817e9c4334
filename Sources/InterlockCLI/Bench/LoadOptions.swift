internal import InterlockJudge
import ArgumentParser
import Glibc
import InterlockClient
import InterlockLoad
import InterlockSidecar

/// What all workloads of `interlock bench` take.
struct LoadOptions: ParsableArguments {
    // MARK: Whom

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp(
            "The sidecars to drive: HOST:PORT, unix:PATH or redis://:KEY@HOST:PORT. Without any, a fleet of its own.",
            valueName: "address"))
    var sidecars: [String] = []

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp(
            "The services of those sidecars to ask for; limits, permits and the proxy need one.", valueName: "name"))
    var service: [String] = []

    @Option(
        parsing: .upToNextOption,
        help: ArgumentHelp("The HTTP doors of those sidecars, in the same order, for the proxy.", valueName: "host:port"))
    var http: [String] = []

    @Option(help: ArgumentHelp("How many sidecars a fleet of its own has.", valueName: "n"))
    var fleet = 2

    @Option(help: ArgumentHelp("So many more services for a fleet of its own; calls then go to them alone.", valueName: "n"))
    var services = 0

    // MARK: How much

    @Option(help: ArgumentHelp("Operations a second, as independent callers come.", valueName: "n"))
    var rate: Double?

    @Flag(help: "Every client asks again as soon as it has its answer: finds the highest throughput.")
    var closedLoop = false

    @Option(help: ArgumentHelp("Connections, spread over the sidecars.", valueName: "n"))
    var clients = 64

    @Option(help: ArgumentHelp("For how long.", valueName: "duration"))
    var duration = DurationArgument(.seconds(30))

    @Option(help: ArgumentHelp("How many locks and subjects there are.", valueName: "n"))
    var names = 1000

    @Option(help: ArgumentHelp("How often each is chosen: uniform or zipf:EXPONENT.", valueName: "skew"))
    var skew = SkewArgument(.uniform)

    @Option(help: ArgumentHelp("How long a lock is held, or a call lasts: a duration or two.", valueName: "range"))
    var hold = HoldArgument(.zero ... .milliseconds(5))

    @Option(help: ArgumentHelp("The lease of a lock.", valueName: "duration"))
    var ttl: DurationArgument?

    @Option(help: ArgumentHelp("How long an acquire waits.", valueName: "duration"))
    var wait = DurationArgument(.seconds(5))

    @Option(help: ArgumentHelp("What a mixed run is made of: lock=40,limit=40,permit=15,proxy=5.", valueName: "shares"))
    var mix = MixArgument(WorkloadShares())

    // MARK: What goes wrong

    @Option(
        help: ArgumentHelp(
            "What to break in a fleet of its own: all, none, or some of \(FaultKind.rigged.map(\.rawValue).joined(separator: ",")).",
            valueName: "kinds"))
    var faults = FaultsArgument([])

    @Option(help: ArgumentHelp("Decides all that is left to chance; otherwise another each time.", valueName: "n"))
    var seed: UInt64?

    // MARK: What comes out

    @Option(help: ArgumentHelp("Write the report as JSON to this file; - prints it instead of the table.", valueName: "file"))
    var json: String?

    @Option(help: ArgumentHelp("Write the report as a page with plots to this file.", valueName: "file.html"))
    var report: String?

    @Option(help: ArgumentHelp("Write down everything clients saw, for `bench check`.", valueName: "file"))
    var history: String?

    func validate() throws {
        guard rate == nil || !closedLoop else { throw ValidationError("--rate and --closed-loop exclude each other") }
        if let rate, !(rate > 0 && rate <= 10_000_000) {
            throw ValidationError("--rate: expected a number above 0 and at most 10000000, got \(rate)")
        }
        guard (1...100_000).contains(clients) else {
            throw ValidationError("--clients: expected 1 to 100000, got \(clients)")
        }
        guard (1...NameChoice.mostNames).contains(names) else {
            throw ValidationError("--names: expected 1 to \(NameChoice.mostNames), got \(names)")
        }
        guard duration.duration > .zero else { throw ValidationError("--duration: expected more than nothing") }
        guard (1...64).contains(fleet) else { throw ValidationError("--fleet: expected 1 to 64 sidecars, got \(fleet)") }
        guard (0...10_000).contains(services) else {
            throw ValidationError("--services: expected 0 to 10000, got \(services)")
        }
        guard sidecars.isEmpty || faults.kinds.isEmpty else {
            throw ValidationError("--faults breaks only a fleet of its own: leave --sidecars away")
        }
        guard sidecars.isEmpty || services == 0 else {
            throw ValidationError("--services is for a fleet of its own; name those of --sidecars with --service")
        }
        guard !sidecars.isEmpty || service.isEmpty && http.isEmpty else {
            throw ValidationError("--service and --http are for --sidecars; a fleet of its own has its own")
        }
        guard http.isEmpty || http.count == sidecars.count else {
            throw ValidationError("--http: expected one door for each of \(sidecars.count) sidecars, got \(http.count)")
        }
    }

    /// Runs a workload, shows and writes its report.
    /// - Throws: `Failure`, also when a promise was broken.
    func run(_ workload: Workload) async throws {
        let bench = try benchRun(workload)
        let line = ProgressLine()
        let report: RunReport
        do {
            report = try await bench.run(tell: { Terminal.tell("bench: \($0)") }, progress: { line.show($0) })
        } catch {
            line.end()
            throw Failure("\(error)", exitCode: .unavailable)
        }
        line.end()
        try deliver(report)
        guard report.check.isClean else {
            throw Failure("\(report.check.verdict); the same again: --seed \(report.seed)", exitCode: .refused)
        }
    }

    private func deliver(_ report: RunReport) throws {
        do {
            if let json, json != "-" { try ReportFile(path: json).write(report.json + "\n") }
            if let path = self.report { try ReportFile(path: path).write(HTMLReport(report).text) }
        } catch let error as ReportFileError {
            throw Failure("\(error)", exitCode: .refused)
        }
        Terminal.show(json == "-" ? try report.json : report.table)
    }

    private func benchRun(_ workload: Workload) throws -> BenchRun {
        var plan = LoadPlan(workload: workload, sidecars: try endpoints(), services: .named(service, for: workload))
        plan.pacing = closedLoop ? .closedLoop : .openLoop(rate: rate ?? 1000)
        plan.clients = clients
        plan.duration = duration.duration
        plan.names = names
        plan.skew = skew.skew
        plan.hold = hold.range
        plan.ttl = ttl?.duration ?? (faults.kinds.isEmpty ? plan.ttl : BenchRun.leaseUnderFaults)
        plan.wait = wait.duration
        plan.shares = mix.shares
        plan.seed = seed ?? UInt64.random(in: 1...999_999_999)
        if workload == .mixed {
            plan.modes = .mixed
            plan.conduct = .troubled
        }
        let own = BenchRun.Fleet(program: "/proc/self/exe", sidecars: fleet, extraServices: services, faults: faults.kinds)
        return BenchRun(plan: plan, fleet: sidecars.isEmpty ? own : nil, historyPath: history)
    }

    private func endpoints() throws -> [SidecarEndpoint] {
        try sidecars.enumerated().map { number, text in
            do throws(LoadArgumentError) {
                var endpoint = try SidecarEndpoint(argument: text, number: number)
                if !http.isEmpty { endpoint.http = try httpAddress(http[number]) }
                return endpoint
            } catch {
                throw Failure("--sidecars, --http: \(error)", exitCode: .usage)
            }
        }
    }

    private func httpAddress(_ text: String) throws(LoadArgumentError) -> SidecarEndpoint.HTTPAddress {
        guard case .tcp(let host, let port) = SidecarAddress(argument: text) else {
            throw LoadArgumentError(expected: "HOST:PORT of an HTTP door", found: text)
        }
        return SidecarEndpoint.HTTPAddress(host: host, port: port)
    }
}
