---- MODULE LockScripts ----
\* The scripts of an exclusive lock as functions, which map the state d of its keys and the arguments a to <<the new
\* state, the reply>>. Lock.tla runs them among clients and faults; LockTrace.tla compares them with recorded calls.
\* Times are remaining times in any unit: ticks in the model, ms in a trace.
\* d: holder (token, ticket or Free), left: the time left of its lease, fence: the last fence (0: none), recent: whether
\*    the counter may continue from that fence, queue: the tickets in their order
\* e: the environment: count and mint, the next fence according to fence-counter.lua and to fences.lua (NextFence);
\*    dead: the tickets whose sidecars do not listen; back: whether the clock was set back
EXTENDS Integers, Sequences, FiniteSets, TLC
CONSTANTS Guards, \* a set of strings: the safeguards in force
          Claim   \* the claim window
Free == {}
Max(a, b) == IF a > b THEN a ELSE b
First(q) == IF q = <<>> THEN Free ELSE Head(q)
Has(q, x) == \E i \in 1..Len(q) : q[i] = x
Without(q, x) == SelectSeq(q, LAMBDA y : y /= x)
\* ---- Fences. The counter continues while it is recent: since is the clock minus the slack. Otherwise, the next fence
\* is the clock, or the last fence plus one if the clock has not passed it.
IsRecent(last, since) == last + 1 > since
NextFence(last, recent, now) == IF recent \/ last >= now THEN last + 1 ELSE now
\* ---- Fragments: locks.lua. A ticket keeps its position; a new one is last, even after the clock was set back.
Enqueue(q, t, e) == IF Has(q, t) THEN q
                    ELSE IF e.back /\ "newcomers_last" \notin Guards THEN <<t>> \o q ELSE Append(q, t)
\* After its waiter was served, a ticket moves to the end of the queue if it has more waiters.
Requeue(q, t, more, e) == IF more THEN Enqueue(Without(q, t), t, e) ELSE Without(q, t)
RECURSIVE Alive(_, _)
Alive(q, dead) == IF q /= <<>> /\ Head(q) \in dead THEN Alive(Tail(q), dead) ELSE q
\* A free lock is offered to the first ticket whose sidecar listens; the tickets before it are dropped.
HandOver(d, q, e) == LET a == Alive(q, e.dead) IN
  IF a = <<>> \/ "hand_over" \notin Guards THEN [d EXCEPT !.holder = Free, !.left = 0, !.queue = a]
  ELSE [holder |-> Head(a), left |-> Claim, fence |-> e.mint, recent |-> TRUE, queue |-> Tail(a)]
Give(token, ttl, fence, q) == [holder |-> token, left |-> ttl, fence |-> fence, recent |-> TRUE, queue |-> q]
Granted(f) == [is |-> "granted", fence |-> f]
\* ---- Scripts
\* acquire-free.lua, acquire.lua. a: token, ttl; take: any caller may acquire it, or else only its owner; owner: whether
\* an earlier grant may have the same token; ticket: the waiter's, or Free; more: whether it has more waiters.
AcquireScript(d, a, e) ==
  LET w == a.ticket /= Free  q == Alive(d.queue, e.dead)
      took == IF w THEN Requeue(q, a.ticket, a.more, e) ELSE q
      new == IF d.holder = Free /\ a.take THEN HandOver(d, q, e) ELSE d
      rest == IF w THEN Enqueue(new.queue, a.ticket, e) ELSE new.queue
      fence == IF d.queue = <<>> /\ ~a.more THEN e.count ELSE e.mint
      own == IF d.fence = 0 THEN e.mint ELSE d.fence
  IN CASE d.holder = Free /\ a.take /\ (q = <<>> \/ (w /\ First(q) = a.ticket) \/ "queue_first" \notin Guards) ->
            <<Give(a.token, a.ttl, fence, took), Granted(fence)>>
       [] w /\ d.holder = a.ticket ->   \* its sidecar claims its turn
            <<Give(a.token, a.ttl, e.mint, Requeue(d.queue, a.ticket, a.more, e)), Granted(e.mint)>>
       [] d.holder = a.token /\ a.owner ->   \* the owner has it already: the same fence, and no earlier end
            <<[d EXCEPT !.left = Max(@, a.ttl), !.fence = own,
                        !.queue = IF w THEN Requeue(@, a.ticket, a.more, e) ELSE @],
              [is |-> "extended", fence |-> own]>>
       [] OTHER -> <<[new EXCEPT !.queue = rest], [is |-> "held", left |-> IF new.holder = Free THEN -2 ELSE new.left,
                     at |-> IF w THEN (CHOOSE i \in 1..Len(rest) : rest[i] = a.ticket) - 1 ELSE -1]>>
\* fenced.lua. only: the fence of the only grant that may change, 0 for any. An expired fence matches any grant.
Matches(d, token, only) == d.holder = token /\ token /= Free /\ (only = 0 \/ d.fence \in {0, only})
\* renew.lua, fenced-renew.lua. keeps: whether it never shortens the lease.
RenewScript(d, a) == IF Matches(d, a.token, a.only)
                     THEN <<[d EXCEPT !.left = IF a.keeps THEN Max(@, a.ttl) ELSE a.ttl], [is |-> "renewed"]>>
                     ELSE <<d, [is |-> "missing"]>>
\* release-quick.lua, release.lua, fenced-release.lua. next: the token of the sidecar's next waiter, or Free, and its
\* ttl; ticket: the sidecar's; on: its turn may continue; more: it has more waiters; quick: the call passes the clock;
\* own: the tickets of the sidecar.
ReleaseScript(d, a, e) ==
  LET claims == a.next /= Free  fence == IF a.quick THEN e.count ELSE e.mint
      rest == IF a.on /\ a.more THEN d.queue ELSE Requeue(d.queue, a.ticket, a.more, e)
      new == HandOver(d, IF claims THEN Enqueue(d.queue, a.ticket, e) ELSE d.queue, e)
  IN CASE ~Matches(d, a.token, a.only) -> <<d, [is |-> "missing"]>>
       [] Matches(d, a.token, a.only) /\ claims /\ (a.on \/ First(d.queue) \in {Free, a.ticket}) ->
            <<Give(a.next, a.ttl, fence, rest), [is |-> "passed", fence |-> fence, begins |-> ~a.on]>>
       [] OTHER -> <<new, [is |-> "freed", first |-> claims /\ First(new.queue) \in a.own]>>
\* leave.lua: the last waiter of the ticket has left.
LeaveScript(d, t, e) == LET q == Without(d.queue, t) IN
  IF d.holder = t THEN <<HandOver(d, q, e), [is |-> "passed"]>> ELSE <<[d EXCEPT !.queue = q], [is |-> "left"]>>
\* break.lua. These scripts write no lease without an expiry (left < 0).
BreakScript(d, only, e) == IF d.holder = Free \/ d.left < 0 \/ (only /= 0 /\ d.fence /= only)
                           THEN <<d, [is |-> "missing"]>> ELSE <<HandOver(d, d.queue, e), [is |-> "broken"]>>
\* lease-state.lua, inspect.lua: no changes. offered: whether the holder is a ticket; most: the maximum length of lists.
LeaseStateScript(d, token, only) == IF Matches(d, token, only) THEN d.left ELSE -2
InspectScript(d, offered, most) == LET all == IF offered THEN <<d.holder>> \o d.queue ELSE d.queue IN
  [holder |-> d.holder, left |-> IF d.holder = Free THEN -2 ELSE d.left, fence |-> d.fence,
   waiting |-> IF Len(all) > most THEN SubSeq(all, 1, most) ELSE all]
====
