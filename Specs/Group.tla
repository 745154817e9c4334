---- MODULE Group ----
\* The lock of Lock.tla when several may hold it: readers beside writers, or the slots of a semaphore. One Redis and one
\* caller for each sidecar: replicas, turns and lost replies act on a group as on an exclusive lock (Lock.tla).
EXTENDS Naturals, Sequences, FiniteSets, TLC
CONSTANTS
  Writers, Readers, Permits, \* callers of each mode; a caller is also its sidecar's ticket and its token
  Slots,          \* the size of the semaphore
  Guards, Events, \* sets of strings: the safeguards in force; what may happen besides acquire, release and expiry
  Ttl, Margin,    \* a lease's length in ticks; its holder relies on it for Margin ticks less, from before its request
  Claim, Recheck  \* in ticks: the claim window, and the delay until a waiter that has checked is notified again
VARIABLES
  lock,    \* kind: "free", "one" (who holds it), "offer" (who has its turn) or "group"; left: ticks of "one" or "offer"
           \* in: caller -> ticks left of its lease in the group; turn: caller -> ticks left of a slot reserved for it
           \* told: the first waiter behind readers; how: "told" to check, or has "seen"; left: ticks until the next
  queue,   \* the tickets
  lease,   \* caller -> the ticks for which it relies on its lease
  call,    \* caller -> its acquire or renewal; left: the validity if it succeeds; ran: whether its script has run
  waits,   \* the callers that wait
  passed   \* ghost: ticket -> grants to others while it was queued
vars == <<lock, queue, lease, call, waits, passed>>
Callers == Writers \cup Readers \cup Permits
None == [c \in Callers |-> 0]
Untold == [who |-> {}, how |-> "none", left |-> 0]
NoLock == [kind |-> "free", who |-> {}, left |-> 0, in |-> None, turn |-> None, told |-> Untold]
NoCall == [op |-> "none", left |-> 0, ran |-> FALSE]
Init == /\ lock = NoLock /\ queue = <<>> /\ lease = None /\ call = [c \in Callers |-> NoCall]
        /\ waits = {} /\ passed = None
Has(q, x) == \E i \in 1..Len(q) : q[i] = x
Without(q, x) == SelectSeq(q, LAMBDA y : y /= x)
IsFirst(q, c) == q /= <<>> /\ Head(q) = c
Add(q, c) == IF Has(q, c) \/ c \notin waits THEN q ELSE Append(q, c)
Busy(l) == {c \in Callers : l.in[c] > 0 \/ l.turn[c] > 0}
Room(l) == Cardinality(Busy(l)) < Slots \/ "slots" \notin Guards
\* ---- Fragments: each takes a state [l, q] of the lock and the queue, and returns the next one.
\* locks.lua: a free lock is offered to the first ticket. Every offer and every grant mints a as in Lock.tla.
HandOver(x) == IF x.q = <<>> THEN [l |-> NoLock, q |-> x.q]
               ELSE [l |-> [NoLock EXCEPT !.kind = "offer", !.who = Head(x.q), !.left = Claim], q |-> Tail(x.q)]
\* groups.lua: reserves the free slots for the first tickets, up to the caller's own, which leaves the queue.
RECURSIVE Reserve(_, _)
Reserve(x, own) == IF x.q = <<>> \/ ~Room(x.l) THEN x
                   ELSE IF Head(x.q) = own THEN [x EXCEPT !.q = Tail(@)]
                   ELSE Reserve([l |-> [x.l EXCEPT !.turn[Head(x.q)] = Claim], q |-> Tail(x.q)], own)
\* groups.lua: notifies the first waiter behind readers, and drops a ticket that does not check within its claim window.
RECURSIVE Notify(_, _)
Notify(x, own) == LET t == x.l.told IN
  IF x.q = <<>> \/ IsFirst(x.q, own) \/ (t.who = Head(x.q) /\ t.left > 0) THEN x
  ELSE IF t.who = Head(x.q) /\ t.how = "told" THEN Notify([x EXCEPT !.q = Tail(@)], own)
  ELSE [x EXCEPT !.l.told = [who |-> Head(x.q), how |-> "told", left |-> Claim]]
Fill(x, isSemaphore) == IF isSemaphore THEN Reserve(x, {}) ELSE Notify(x, {})
Put(x) == lock' = x.l /\ queue' = x.q
Granted(c) == /\ waits' = waits \ {c} /\ call' = [call EXCEPT ![c].ran = TRUE]
              /\ passed' = [u \in Callers |-> IF u /= c /\ Has(queue, u) THEN passed[u] + 1 ELSE 0]
Refused(c, x) == /\ Put([x EXCEPT !.q = Add(@, c)]) /\ call' = [call EXCEPT ![c] = NoCall] /\ UNCHANGED waits
                 /\ passed' = [passed EXCEPT ![c] = IF Has(queue, c) THEN @ ELSE 0]
\* Gives the caller a lease in the group of state x, and the slots that are left to the waiters.
Join(c, x) == LET sem == c \in Permits  l == [x.l EXCEPT !.in[c] = Ttl, !.turn[c] = 0] IN
  Granted(c) /\ Put(Fill([l |-> l, q |-> Without(x.q, c)], sem))
\* ---- Callers
Wait(c) == /\ "wait" \in Events /\ call[c] = NoCall /\ lease[c] = 0 /\ waits' = waits \cup {c} /\ waits' /= waits
           /\ UNCHANGED <<lock, queue, lease, call, passed>>
Send(c, op) == /\ call[c] = NoCall /\ (op = "renew" => lease[c] > 0 /\ op \in Events)
               /\ (op = "acquire" => lease[c] = 0 /\ (lock.in[c] = 0 \/ "owner" \in Events))
               /\ call' = [call EXCEPT ![c] = [op |-> op, left |-> Ttl - Margin, ran |-> FALSE]]
               /\ UNCHANGED <<lock, queue, lease, waits, passed>>
Confirm(c) == /\ call[c].ran /\ lease' = [lease EXCEPT ![c] = IF call[c].left > 0 THEN call[c].left ELSE @]
              /\ call' = [call EXCEPT ![c] = NoCall] /\ UNCHANGED <<lock, queue, waits, passed>>
GiveUp(c) == /\ "give_up" \in Events /\ call[c] = NoCall /\ waits' = waits \ {c} /\ waits' /= waits
             /\ UNCHANGED <<lock, queue, lease, call, passed>>
\* ---- Scripts
Acquire(c) == \* acquire.lua, for a writer
  LET x == [l |-> lock, q |-> queue]
      seen == c \in waits /\ IsFirst(Add(queue, c), c) /\ lock.kind = "group" /\ lock.told.who /= {} IN
  /\ c \in Writers /\ call[c].op = "acquire" /\ ~call[c].ran /\ UNCHANGED lease
  /\ CASE \/ lock.kind = "free" /\ (queue = <<>> \/ (c \in waits /\ IsFirst(queue, c)) \/ "queue_first" \notin Guards)
          \/ lock.kind = "offer" /\ lock.who = c /\ c \in waits
          \/ lock.kind = "group" /\ "mode" \notin Guards ->
            Granted(c) /\ Put([l |-> [NoLock EXCEPT !.kind = "one", !.who = c, !.left = Ttl], q |-> Without(queue, c)])
       [] lock.kind = "free" /\ queue /= <<>> -> Refused(c, HandOver(x))
       [] OTHER -> Refused(c, IF seen THEN [x EXCEPT !.l.told = [who |-> c, how |-> "seen", left |-> Recheck]] ELSE x)
Share(c) == \* share.lua, for a reader or a slot
  LET l == IF c \in waits /\ lock.told.who = c THEN [lock EXCEPT !.told = Untold] ELSE lock
      x == [l |-> l, q |-> queue]  new == [NoLock EXCEPT !.kind = "group"]  own == IF c \in waits THEN c ELSE {}
      y == IF c \in Permits THEN Reserve(x, own) ELSE Notify(x, own) IN
  /\ c \notin Writers /\ call[c].op = "acquire" /\ ~call[c].ran /\ UNCHANGED lease
  /\ CASE l.kind = "free" /\ queue /= <<>> /\ ~(c \in waits /\ IsFirst(queue, c)) /\ "queue_first" \in Guards ->
            Refused(c, HandOver(x))
       [] l.kind = "free" \/ (l.kind = "offer" /\ l.who = c /\ c \in waits) -> Join(c, [l |-> new, q |-> queue])
       [] l.kind \in {"one", "offer"} -> Refused(c, x)
       [] l.in[c] > 0 -> \* the owner has it already: the same and no earlier end
            /\ Put([l |-> [l EXCEPT !.in[c] = Ttl], q |-> Without(queue, c)]) /\ waits' = waits \ {c}
            /\ call' = [call EXCEPT ![c].ran = TRUE] /\ UNCHANGED <<passed>>
       [] l.turn[c] > 0 /\ c \in waits -> Join(c, x)
       [] c \in Permits -> IF Room(y.l) THEN Join(c, y) ELSE Refused(c, y)
       [] y.q = <<>> \/ (c \in waits /\ IsFirst(y.q, c)) \/ "readers_wait" \notin Guards -> Join(c, y)
       [] OTHER -> Refused(c, y)
Renew(c) == \* renew.lua, share-renew.lua
  /\ call[c].op = "renew" /\ ~call[c].ran /\ UNCHANGED <<queue, waits, passed>>
  /\ lock' = IF lock.in[c] > 0 THEN [lock EXCEPT !.in[c] = Ttl]
             ELSE IF lock.who = c /\ lock.kind = "one" THEN [lock EXCEPT !.left = Ttl] ELSE lock
  /\ IF lock.in[c] > 0 \/ (lock.who = c /\ lock.kind = "one")
     THEN call' = [call EXCEPT ![c].ran = TRUE] /\ UNCHANGED lease
     ELSE call' = [call EXCEPT ![c] = NoCall] /\ lease' = [lease EXCEPT ![c] = 0]
Release(c) == \* release.lua, share-release.lua
  LET x == [l |-> [lock EXCEPT !.in[c] = 0], q |-> queue] IN
  /\ lease[c] > 0 /\ call[c] = NoCall /\ lease' = [lease EXCEPT ![c] = 0] /\ UNCHANGED <<call, waits, passed>>
  /\ Put(CASE lock.kind = "one" /\ lock.who = c -> HandOver(x)
           [] lock.in[c] > 0 -> IF Busy(x.l) = {} THEN HandOver(x) ELSE Fill(x, c \in Permits)
           [] OTHER -> x)
Leave(c) == \* leave.lua
  LET q == Without(queue, c)  x == [l |-> [lock EXCEPT !.turn[c] = 0], q |-> q]
      y == Fill(x, Permits /= {}) IN
  /\ c \notin waits /\ (q /= queue \/ (lock.kind = "offer" /\ lock.who = c) \/ lock.turn[c] > 0)
  /\ Put(CASE lock.kind = "offer" /\ lock.who = c -> HandOver(x)
           [] lock.turn[c] > 0 -> IF Busy(y.l) = {} THEN [y EXCEPT !.l = NoLock] ELSE y
           [] lock.kind = "group" /\ Permits = {} -> y
           [] OTHER -> x)
  /\ UNCHANGED <<lease, call, waits, passed>>
Break == /\ "break" \in Events /\ lock.kind /= "free" /\ Put(HandOver([l |-> lock, q |-> queue]))   \* break.lua
         /\ UNCHANGED <<lease, call, waits, passed>>
\* ---- Time: a group ends with its last lease
Dec(n) == IF n > 0 THEN n - 1 ELSE 0
IsTurn(c) == \/ lock.kind = "offer" /\ lock.who = c /\ lock.left = 1
             \/ lock.told.who = c /\ lock.told.how = "told" /\ lock.told.left = 1 /\ IsFirst(queue, c)
Wane(f) == [c \in Callers |-> Dec(f[c])]
Tick == LET l == [lock EXCEPT !.left = Dec(@), !.in = Wane(@), !.turn = Wane(@), !.told.left = Dec(@)] IN
  /\ lock' = IF l.left = 0 /\ Busy(l) = {} THEN NoLock ELSE l
  /\ "prompt" \in Events => \A c \in waits : ~(IsTurn(c) \/ lock.turn[c] = 1)   \* a sidecar that runs is in time
  /\ lease' = Wane(lease) /\ call' = [c \in Callers |-> [call[c] EXCEPT !.left = Dec(@)]]
  /\ UNCHANGED <<queue, waits, passed>>
Next == \/ Tick \/ Break
        \/ \E c \in Callers : \/ Wait(c) \/ Send(c, "acquire") \/ Send(c, "renew") \/ Confirm(c) \/ GiveUp(c)
                              \/ Acquire(c) \/ Share(c) \/ Renew(c) \/ Release(c) \/ Leave(c)
Spec == Init /\ [][Next]_vars
FairSpec == /\ Spec /\ WF_vars(Tick)
            /\ \A c \in Callers : /\ WF_vars(Confirm(c)) /\ WF_vars(Leave(c)) /\ SF_vars(Acquire(c))
                                  /\ SF_vars(Share(c)) /\ SF_vars(c \in waits /\ Send(c, "acquire"))
Symmetry == Permutations(Writers) \cup Permutations(Readers) \cup Permutations(Permits)
\* ---- Promises
Relies(s) == {c \in s : lease[c] > 0}
SharedExcludesExclusive == Relies(Writers) = {} \/ Cardinality(Relies(Callers)) = 1
SemaphoreWithinSlots == Cardinality(Relies(Permits)) =< Slots
NoOvertaking == \A c \in Callers : passed[c] =< Cardinality(Callers) - 1
Served == \A c \in Callers : c \in waits ~> c \notin waits   \* every waiter is granted or refused
====
