import FoundationEssentials
import Subprocess

/// What a run of `interlock` came to.
struct CommandOutcome: Sendable, CustomStringConvertible {
    var status: TerminationStatus
    var output: String
    var errors: String

    var description: String { "\(status)\n\(output)\n\(errors)" }

    /// What it printed with `--json`; names in snake case become camel case.
    func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .convertFromSnakeCase
        return try decoder.decode(type, from: Data(output.utf8))
    }
}
