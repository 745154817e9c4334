internal import DequeModule

/// Members that wait for their turn. Parties take turns, and so do the members of one party, in the order in which they came.
struct TurnLine<Party: Hashable, Member> {
    private var members: [Party: Deque<Member>] = [:]
    /// Each party that has a member waiting, once.
    private var parties: Deque<Party> = []

    var isEmpty: Bool { parties.isEmpty }
    /// The parties that have a member waiting.
    var partyCount: Int { parties.count }

    func isWaiting(_ party: Party) -> Bool { members[party] != nil }

    mutating func append(_ member: Member, of party: Party) {
        if members[party] == nil { parties.append(party) }
        members[party, default: []].append(member)
    }

    mutating func popFirst() -> Member? {
        guard let party = parties.popFirst(), let member = members[party]?.popFirst() else { return nil }
        if members[party]?.isEmpty ?? true { members[party] = nil } else { parties.append(party) }
        return member
    }
}
