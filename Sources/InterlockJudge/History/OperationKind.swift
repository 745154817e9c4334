/// The kinds of operations as reports name them.
package enum OperationKind: String, Hashable, Sendable, Codable, CaseIterable {
    case acquire, renew, release, take, permit, report
    case proxied = "proxy"
}
