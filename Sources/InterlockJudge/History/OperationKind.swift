/// The kinds of operations. Reports show the raw values.
package enum OperationKind: String, Hashable, Sendable, Codable, CaseIterable {
    case acquire, renew, release, take, permit, report
    case proxied = "proxy"
}
