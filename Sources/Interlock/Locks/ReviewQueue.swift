internal import DequeModule
internal import InterlockCore

/// A first-in, first-out queue of the leases to review, with the time of each review.
///
/// Names and tokens are bytes in one buffer. Separate strings would be scattered over the heap while their leases last,
/// so that the allocations of later requests would miss the processor's caches. Grants were a sixth slower with
/// strings.
struct ReviewQueue<Key> {
    struct Review {
        let key: Key
        let grant: GrantHistory.ID
        let at: Instant
        fileprivate let nameLength: Int32
        fileprivate let tokenLength: Int32

        fileprivate var textLength: Int { Int(nameLength) + Int(tokenLength) }
    }

    private var reviews: Deque<Review> = []
    /// The name and token of each review, in the order of the reviews.
    private var textBytes: Deque<UInt8> = []

    var count: Int { reviews.count }
    var first: Review? { reviews.first }

    mutating func append(_ key: Key, grant: GrantHistory.ID, at instant: Instant, name: String, token: String) {
        let (nameLength, tokenLength) = (Int32(name.utf8.count), Int32(token.utf8.count))
        reviews.append(
            Review(key: key, grant: grant, at: instant, nameLength: nameLength, tokenLength: tokenLength))
        textBytes.append(contentsOf: name.utf8)
        textBytes.append(contentsOf: token.utf8)
    }

    /// Removes the first review and returns its name and its token. The queue must not be empty.
    mutating func removeFirst() -> (name: String, token: String) {
        let names = names(of: reviews[0], at: 0)
        dropFirst()
        return names
    }

    /// Removes the first review. The queue must not be empty.
    mutating func dropFirst() {
        textBytes.removeFirst(reviews.removeFirst().textLength)
    }

    /// Keeps only the reviews that satisfy the condition. O(n).
    mutating func keep(where isKept: (Review) -> Bool) {
        var keptQueue = ReviewQueue()
        for (review, offset) in filter(isKept) {
            keptQueue.reviews.append(review)
            keptQueue.textBytes.append(contentsOf: textBytes[offset..<offset + review.textLength])
        }
        self = keptQueue
    }

    /// Returns the reviews that satisfy the condition, with the offsets of their names and tokens. O(n).
    func filter(_ isIncluded: (Review) -> Bool) -> [(review: Review, position: Int)] {
        var matches: [(review: Review, position: Int)] = []
        var position = 0
        for review in reviews {
            if isIncluded(review) { matches.append((review, position)) }
            position += review.textLength
        }
        return matches
    }

    /// Returns the name and the token of a review.
    /// - Parameter position: the offset of its text, as returned by `filter`.
    func names(of review: Review, at position: Int) -> (name: String, token: String) {
        let middle = position + Int(review.nameLength)
        return (
            String(decoding: textBytes[position..<middle], as: UTF8.self),
            String(decoding: textBytes[middle..<position + review.textLength], as: UTF8.self)
        )
    }
}
