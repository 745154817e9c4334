/// A request's descriptors, each with the rule that it matches.
package struct DescriptorPlan: Hashable, Sendable {
    /// The amount that a descriptor takes from its counter.
    package struct Charge: Hashable, Sendable {
        /// The counter's name; together with the limit's name, it forms the counter's key.
        package var counter: ExactText
        package var limit: LimitDefinition
        package var isAligned: Bool
        package var cost: Int64
    }

    /// The plan for one descriptor.
    package struct Item: Hashable, Sendable {
        /// The status if the script does not decide on the descriptor.
        package var status: DescriptorStatus
        /// The charge on which the script decides; `nil` if it does not decide on the descriptor.
        package var charge: Charge?
    }

    package var items: [Item]

    package var hasCharges: Bool { items.contains { $0.charge != nil } }
}
