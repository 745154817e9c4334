/// One descriptor of a request, with its cost.
package struct RequestedDescriptor: Hashable, Sendable {
    /// A limit that the caller supplies in place of the rule's limit.
    package struct Override: Hashable, Sendable {
        /// The maximum amount in a window; 0 blocks everything.
        package var limit: Int64
        package var window: Duration
        /// The limit's name in the counter's key: its window, `1m`.
        package var name: String

        package init(limit: Int64, window: Duration, name: String) {
            self.limit = limit
            self.window = window
            self.name = name
        }
    }

    package var entries: [DescriptorEntry]
    /// The amount to take; 0 only reads, and a negative cost is a refund.
    package var cost: Int64
    package var override: Override?

    package init(entries: [DescriptorEntry], cost: Int64 = 1, override: Override? = nil) {
        self.entries = entries
        self.cost = cost
        self.override = override
    }
}
