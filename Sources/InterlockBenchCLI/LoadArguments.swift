import ArgumentParser
import InterlockCore
internal import InterlockJudge
import InterlockLoad

/// A distribution of names: `uniform` or `zipf:1.1`.
struct SkewArgument: ExpressibleByArgument, Sendable {
    let skew: NameSkew

    init?(argument: String) {
        guard let skew = try? NameSkew(argument: argument) else { return nil }
        self.skew = skew
    }

    init(_ skew: NameSkew) {
        self.skew = skew
    }

    var defaultValueDescription: String { "\(skew)" }
}

/// A duration or a range: `2ms` or `0..5ms`.
struct HoldArgument: ExpressibleByArgument, Sendable {
    let range: ClosedRange<Duration>

    init?(argument: String) {
        guard let range = try? DurationRangeText.parse(argument, duration: { try DurationText.parse(String($0)) }) else {
            return nil
        }
        self.range = range
    }

    init(_ range: ClosedRange<Duration>) {
        self.range = range
    }

    var defaultValueDescription: String {
        "\(DurationText.shortest(range.lowerBound))..\(DurationText.shortest(range.upperBound))"
    }
}

/// The faults: `all`, `none`, or kinds separated by commas, such as `kill,pause`.
struct FaultsArgument: ExpressibleByArgument, Sendable {
    /// The kinds; `nil` for all that the topology supports.
    private let kinds: Set<FaultKind>?

    init?(argument: String) {
        switch argument {
        case "all":
            kinds = nil
        case "none":
            kinds = []
        default:
            let names = argument.split(separator: ",", omittingEmptySubsequences: false)
            let kinds = names.compactMap { FaultKind(rawValue: String($0)) }.filter(FaultKind.injectable.contains)
            guard kinds.count == names.count else { return nil }
            self.kinds = Set(kinds)
        }
    }

    init(_ kinds: Set<FaultKind>) {
        self.kinds = kinds
    }

    var isNone: Bool { kinds?.isEmpty ?? false }

    func kinds(on topology: FleetTopology) -> Set<FaultKind> { kinds ?? Set(topology.faults) }

    var defaultValueDescription: String {
        guard let kinds else { return "all" }
        return kinds.isEmpty ? "none" : kinds.map(\.rawValue).sorted().joined(separator: ",")
    }
}

/// The topology of Redis: `single`, `sentinel` or `cluster`.
enum TopologyArgument: String, ExpressibleByArgument, CaseIterable, Sendable {
    case single, sentinel, cluster
}

/// The weights of a mixed run: `lock=40,limit=40,permit=15,proxy=5`. Omitted operations have weight 0.
struct MixArgument: ExpressibleByArgument, Sendable {
    let weights: WorkloadWeights

    init?(argument: String) {
        var weights = WorkloadWeights(lock: 0, limit: 0, permit: 0, proxy: 0)
        for part in argument.split(separator: ",", omittingEmptySubsequences: false) {
            let fields = part.split(separator: "=", omittingEmptySubsequences: false)
            guard fields.count == 2, let weight = Double(fields[1]), weight >= 0, weight.isFinite else { return nil }
            switch fields[0] {
            case "lock": weights.lock = weight
            case "limit": weights.limit = weight
            case "permit": weights.permit = weight
            case "proxy": weights.proxy = weight
            default: return nil
            }
        }
        guard weights.lock + weights.limit + weights.permit + weights.proxy > 0 else { return nil }
        self.weights = weights
    }

    init(_ weights: WorkloadWeights) {
        self.weights = weights
    }

    var defaultValueDescription: String {
        "lock=\(Int(weights.lock)),limit=\(Int(weights.limit)),permit=\(Int(weights.permit)),proxy=\(Int(weights.proxy))"
    }
}
