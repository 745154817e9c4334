extension ServiceLimiter {
    /// What became of the calls of a request, or of some of them.
    public struct Settlement: Equatable, Sendable {
        public var id: Int
        /// The answer to the first of these calls.
        public var answer: LimitAnswer
        /// Its place in the batch; `nil`: it did not travel.
        public var place: Int?
        /// Which of the request's calls these are.
        public var calls: Range<Int>
        /// No other settlement of the request follows.
        public var isLast: Bool
        /// How much less each further call leaves than the one before it.
        public var step: Int64

        public init(
            id: Int, answer: LimitAnswer, place: Int?, calls: Range<Int> = 0..<1, isLast: Bool = true, step: Int64 = 0
        ) {
            self.id = id
            self.answer = answer
            self.place = place
            self.calls = calls
            self.isLast = isLast
            self.step = step
        }
    }
}
