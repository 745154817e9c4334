internal import HTTPTypes

/// One method on one path, who may use it, and what answers.
struct HTTPRoute: Sendable {
    /// Who is let in.
    enum Admission: Sendable, Equatable {
        /// Also without a key.
        case anyone
        /// A caller of this role; without configured keys, everybody is.
        case role(APIKey.Role)
        /// A caller with a key; without configured keys, nobody.
        case keyHolder
    }

    let method: HTTPRequest.Method
    /// The path, with the names of its variable segments in braces, as the contract has it.
    let path: String
    let admission: Admission
    /// Whether `HEAD` is answered as well: where `GET` does not change anything and ends.
    let answersHead: Bool
    let answer: @Sendable (HTTPCall) async throws -> HTTPAnswer

    init(
        _ method: HTTPRequest.Method, _ path: String, for admission: Admission = .role(.use), answersHead: Bool? = nil,
        answer: @escaping @Sendable (HTTPCall) async throws -> HTTPAnswer
    ) {
        self.method = method
        self.path = path
        self.admission = admission
        self.answersHead = answersHead ?? (method == .get)
        self.answer = answer
    }
}
