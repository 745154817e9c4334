/// What an HTTP probe was answered.
struct ProbeAnswer: Sendable {
    var status: Int
    var headers: [(name: String, value: String)]
    /// At most what is looked at.
    var body: [UInt8]
    /// There was more of it.
    var isCut: Bool

    /// The values of a header, one for each time that it is there.
    func values(of name: String) -> [String] {
        headers.filter { $0.name.lowercased() == name.lowercased() }.map(\.value)
    }
}
