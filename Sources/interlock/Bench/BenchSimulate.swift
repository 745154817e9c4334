import ArgumentParser
import InterlockLoad

/// `interlock bench simulate`: the decisions in a simulated world.
struct BenchSimulate: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulate",
        abstract: "Run the decisions in a simulated world of many sidecars that a seed decides wholly.",
        discussion: """
            A model of Redis runs the rules of the scripts; messages are late, lost and overtaken; sidecars crash and stop, \
            Redis forgets, its clock jumps. Whatever happens, the promises must hold. A seed that shows otherwise is printed, \
            and shows it again.

            EXAMPLES
              interlock bench simulate --seeds 1000 --steps 10000
              interlock bench simulate --seed 4711
              interlock bench simulate --mutant no-fence
            """
    )

    @Option(help: ArgumentHelp("How many seeds.", valueName: "n"))
    var seeds = 100

    @Option(help: ArgumentHelp("The first of them.", valueName: "n"))
    var firstSeed: UInt64 = 1

    @Option(help: ArgumentHelp("Only this one.", valueName: "n"))
    var seed: UInt64?

    @Option(help: ArgumentHelp("How many events each seed has.", valueName: "n"))
    var steps = 10_000

    @Option(
        help: ArgumentHelp(
            "Break a rule of the scripts on purpose, to see it noticed: \(Mutant.allCases.map(\.rawValue).joined(separator: ", ")).",
            valueName: "rule"))
    var mutant: MutantArgument?

    @Option(
        help: ArgumentHelp(
            "Who takes part: \(SimulatedParty.allCases.map(\.rawValue).joined(separator: ", ")). Repeatable; otherwise all.",
            valueName: "party"))
    var party: [PartyArgument] = []

    @OptionGroup var output: OutputOptions

    func validate() throws {
        guard (1...10_000_000).contains(seeds) else { throw ValidationError("--seeds: expected 1 to 10000000, got \(seeds)") }
        guard (1...1_000_000_000).contains(steps) else {
            throw ValidationError("--steps: expected 1 to 1000000000, got \(steps)")
        }
    }

    func run() async throws {
        let first = seed ?? firstSeed
        let parties = party.isEmpty ? Set(SimulatedParty.allCases) : Set(party.map(\.party))
        var sums = SimulationReading(seeds: 0, steps: 0, operations: 0, grants: 0, faults: 0, violations: 0, bad: [], digest: nil)
        var next = ContinuousClock.now + .seconds(2)
        for number in 0..<UInt64(seed == nil ? seeds : 1) {
            let outcome = Simulation.run(seed: first &+ number, steps: steps, mutant: mutant?.mutant, parties: parties)
            sums.add(outcome)
            if seed != nil { sums.digest = String(outcome.digest, radix: 16) }
            for violation in outcome.check.violations.prefix(seed == nil ? 1 : 20) {
                Terminal.tell("seed \(outcome.seed): \(violation)")
            }
            guard sums.bad.count < Self.mostBadSeeds else { break }
            if ContinuousClock.now > next {
                next += .seconds(2)
                Terminal.tell(
                    "bench: \(number + 1) of \(seeds) seeds, \(Figure.count(sums.steps)) steps, \(sums.violations) violations")
            }
        }
        try Terminal.show(sums, asJSON: output.json)
        guard let bad = sums.bad.first else { return }
        throw Failure(
            "\(sums.violations) violations; the first again: interlock bench simulate --seed \(bad) --steps \(steps)"
                + (mutant.map { " --mutant \($0.mutant.rawValue)" } ?? "")
                + party.map { " --party \($0.party.rawValue)" }.joined(),
            exitCode: .refused)
    }

    /// What is as broken as that need not be looked for any longer.
    private static let mostBadSeeds = 20
}

/// A party by its name.
struct PartyArgument: ExpressibleByArgument {
    let party: SimulatedParty

    init?(argument: String) {
        guard let party = SimulatedParty(rawValue: argument) else { return nil }
        self.party = party
    }
}

/// A rule by its name.
struct MutantArgument: ExpressibleByArgument {
    let mutant: Mutant

    init?(argument: String) {
        guard let mutant = Mutant(rawValue: argument) else { return nil }
        self.mutant = mutant
    }
}

/// What all seeds of a simulation came to.
struct SimulationReading: Answer {
    var seeds: Int
    var steps: Int
    var operations: Int
    var grants: Int
    var faults: Int
    var violations: Int
    /// Seeds that showed a violation.
    var bad: [UInt64]
    /// Of a single seed's whole history.
    var digest: String?

    mutating func add(_ outcome: SimulationOutcome) {
        seeds += 1
        steps += outcome.steps
        operations += outcome.operations
        grants += outcome.grants
        faults += outcome.faults
        violations += outcome.check.violationCount
        if !outcome.check.isClean { bad.append(outcome.seed) }
    }

    var table: String {
        var table = Table([
            "seeds": Figure.count(seeds), "steps": Figure.count(steps), "operations": Figure.count(operations),
            "grants": Figure.count(grants), "faults": Figure.count(faults), "violations": Figure.count(violations),
        ])
        if !bad.isEmpty { table.add(["bad seeds", bad.map(String.init).joined(separator: " ")]) }
        if let digest { table.add(["history's digest", digest]) }
        return table.text
    }
}
