internal import HTTPTypes
internal import NIOCore

/// Keeps a copy of an answer while it is streamed, until it is whole or too large.
struct AnswerRecorder {
    private let answers: LastGoodAnswers
    private let key: LastGoodAnswers.Key
    private let status: HTTPResponse.Status
    private let fields: HTTPFields
    private var body = ByteBuffer()
    private var isTooLarge = false

    /// `nil`: the answer is not to be kept.
    init?(_ answers: LastGoodAnswers?, _ key: LastGoodAnswers.Key?, _ status: HTTPResponse.Status, _ fields: HTTPFields) {
        guard let answers, let key, LastGoodAnswers.mayBeKept(status, fields) else { return nil }
        self.answers = answers
        self.key = key
        self.status = status
        self.fields = fields
    }

    mutating func record(_ chunk: ByteBuffer) {
        guard !isTooLarge else { return }
        isTooLarge = body.readableBytes + chunk.readableBytes > LastGoodAnswers.largestBody
        if isTooLarge { body = ByteBuffer() } else { body.writeImmutableBuffer(chunk) }
    }

    /// The answer has come to its end.
    func finish() {
        guard !isTooLarge else { return }
        answers.keep(.init(status: status, fields: fields, body: body, storedAt: .now()), for: key)
    }
}
