// The code between `snippet` and `end` appears verbatim in `docs/swift/guarded-calls.md`; see
// `DocumentedExamples.swift`.

import Interlock

struct CatalogError: Error {
    var status: Int
    var retryAfter: Duration?
}

struct Article: Sendable {
    var number: Int
    var title: String
}

/// A client of a catalog service.
struct CatalogClient: Sendable {
    func articles(page: Int, token: String = "") async throws -> [Article] {
        [Article(number: page, title: "Article \(page)")]
    }
}

/// The examples that are bodies of functions; `client` is the program's own.
struct DocumentedServiceExamples {
    let client = CatalogClient()

    func call(_ coordinator: Coordinator) async throws -> [Article] {
        // snippet: call
        let articles = try await coordinator.services.call("catalog") {
            try await client.articles(page: 1)
        }
        // end
        return articles
    }

    func refused(_ coordinator: Coordinator) async throws -> [Article]? {
        do {
            return try await coordinator.services.call("catalog", subject: "shop-1", wait: .milliseconds(500)) {
                try await client.articles(page: 1)
            }
        } catch let error as ServiceCallError {
            switch error.code {
            case .open, .limited, .busy: return nil  // refused: retry after error.retryAfter
            case .unavailable: return nil  // Redis is unreachable, and the service denies calls without it
            default: throw error  // a mistake in this program
            }
        }
    }

    func judged(_ coordinator: Coordinator) async throws -> [Article] {
        // snippet: judged
        let articles = try await coordinator.services.call(
            "catalog",
            judgedBy: { result in
                switch result {
                case .success: OutcomeReport(outcome: .ok)
                case .failure(let error as CatalogError):
                    OutcomeReport(
                        outcome: error.status < 500 ? .ok : .error, status: error.status, retryAfter: error.retryAfter)
                case .failure: OutcomeReport(of: result)
                }
            }
        ) {
            try await client.articles(page: 1)
        }
        // end
        return articles
    }

    func ordered(_ coordinator: Coordinator) async throws -> [Article] {
        // snippet: ordered
        let articles = try await coordinator.services.withWork(maximumExecuting: 4) { work in
            let login = try work.add("login", service: "catalog") { "token" }
            let pages = try (1...3).map { number in
                try work.add("page \(number)", service: "catalog", after: [login]) {
                    try await client.articles(page: number, token: try await login.value)
                }
            }
            var articles: [Article] = []
            for page in pages { articles += try await page.value }
            return articles
        }
        // end
        return articles
    }

    func observed(_ work: WorkQueue) async throws -> [WorkState] {
        var states: [WorkState] = []
        let item = try work.add("page 1", service: "catalog") { try await client.articles(page: 1) }
        for await state in item.states {
            states.append(state)
        }
        return states
    }
}
